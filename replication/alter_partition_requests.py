"""Change ISRs with AlterPartition requests to the controller (KIP-497).

One request is in flight at a time. Changes that are proposed meanwhile go into the next request, whatever their topics.
A request that fails as a whole (no controller, a new controller, this broker's registration is not known yet) is sent
again, to the controller of that time. The controller may therefore receive a change twice, and answers both alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from client.errors import KafkaError
from client.wire.backoff import Backoff, Retries
from client.wire.node_connection import NodeConnection
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from protocol.uuid import ZERO_UUID
from replication.alter_partition import IsrChange, IsrChangeRefusedError, LeaderAndIsr

logger = logging.getLogger(__name__)

LAST_VERSION_WITH_NAMES = 1
FIRST_VERSION_WITH_BROKER_EPOCHS = 3

Key = tuple[str, int]


class AlterPartitionRequests:
    """An `AlterPartition` that asks the controller."""

    def __init__(
        self, broker_id: int, controller: NodeConnection, broker_epoch: Callable[[], int], backoff: Backoff
    ) -> None:
        """controller: connects to the current controller and negotiates versions."""
        self._broker_id = broker_id
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._retries = Retries(backoff)
        self._unsent: dict[Key, tuple[IsrChange, asyncio.Future[LeaderAndIsr]]] = {}
        self._news = asyncio.Event()

    async def submit(self, change: IsrChange) -> LeaderAndIsr:
        """See `AlterPartition`."""
        key = (change.topic, change.partition)
        known = self._unsent.get(key)
        if known is not None and not known[1].done():
            # The partition has a newer leader epoch, so the answer to the older change is no longer used.
            known[1].set_exception(IsrChangeRefusedError(ErrorCode.OPERATION_NOT_ATTEMPTED, "a newer ISR is proposed"))
        decided: asyncio.Future[LeaderAndIsr] = asyncio.get_running_loop().create_future()
        self._unsent[key] = (change, decided)
        self._news.set()
        return await decided

    async def run(self) -> None:
        """Send proposed changes until cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._unsent:
                    batch = dict(self._unsent)
                    if await self._ask(batch):
                        self._retries.succeeded()
                    else:
                        await self._retries.wait()
        finally:
            self._controller.close()

    async def _ask(self, batch: dict[Key, tuple[IsrChange, asyncio.Future[LeaderAndIsr]]]) -> bool:
        """Send a request and deliver its answers. Return False if changes must be sent again."""
        changes = [change for change, _ in batch.values()]
        try:
            connection = await self._controller.open()
            with_ids = all(change.topic_id != ZERO_UUID for change in changes)
            version = connection.common_version(AlterPartitionRequest, None if with_ids else LAST_VERSION_WITH_NAMES)
            request = self._request(changes, version)
            response = await connection.call(request, AlterPartitionResponse, version)
        except KafkaError as error:
            logger.debug("AlterPartition fails: %s", error)
            return False
        if response.error_code:
            logger.info("the controller refuses AlterPartition with error code %d", response.error_code)
            if response.error_code == ErrorCode.NOT_CONTROLLER:
                self._controller.close()
            return False
        names = {change.topic_id: change.topic for change in changes}
        for topic in response.topics:
            name = topic.topic_name if version <= LAST_VERSION_WITH_NAMES else names.get(topic.topic_id, "")
            for answer in topic.partitions:
                key = (name, answer.partition_index)
                if key in batch:
                    self._answer(key, batch.pop(key), answer)
        return not batch  # changes that the response does not mention are sent again

    def _answer(
        self, key: Key, asked: tuple[IsrChange, asyncio.Future[LeaderAndIsr]], answer: ResponsePartitionData
    ) -> None:
        if self._unsent.get(key) is asked:
            del self._unsent[key]
        decided = asked[1]
        if decided.done():
            return
        if answer.error_code:
            decided.set_exception(IsrChangeRefusedError(answer.error_code))
        else:
            decided.set_result(
                LeaderAndIsr(answer.leader_id, answer.leader_epoch, tuple(answer.isr), answer.partition_epoch)
            )

    def _request(self, changes: Iterable[IsrChange], version: int) -> AlterPartitionRequest:
        topics: dict[str, TopicData] = {}
        for change in changes:
            topic = topics.setdefault(change.topic, TopicData(topic_name=change.topic, topic_id=change.topic_id))
            proposed = change.proposed
            data = PartitionData(
                partition_index=change.partition,
                leader_epoch=proposed.leader_epoch,
                partition_epoch=proposed.partition_epoch,
            )
            if version >= FIRST_VERSION_WITH_BROKER_EPOCHS:
                data.new_isr_with_epochs = [
                    BrokerState(broker_id=replica, broker_epoch=epoch)
                    for replica, epoch in zip(proposed.isr, proposed.broker_epochs, strict=True)
                ]
            else:
                data.new_isr = list(proposed.isr)
            topic.partitions.append(data)
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

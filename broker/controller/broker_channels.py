"""The channels to all live brokers, and the requests that the controller sends through them.

LeaderAndIsr is sent before the UpdateMetadata that advertises it; each channel keeps the order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any

from broker.controller.channel import ControllerChannel, NewChannel
from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.partition_states import Unannounced
from broker.controller.requests import RequestBuilder
from broker.controller.superseded import OnAnswer
from protocol.message import Message
from replication.inter_broker_protocol import InterBrokerProtocol

logger = logging.getLogger(__name__)

CreateTask = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class BrokerChannels:
    """One channel for each live broker of the context."""

    def __init__(
        self,
        controller_id: int,
        context: ControllerContext,
        versions: InterBrokerProtocol,
        *,
        listener_name: str,
        new_channel: NewChannel,
        on_leader_and_isr: Callable[[int, int, Message], None],
    ) -> None:
        """listener_name: the listener of each broker that the controller connects to.

        on_leader_and_isr: called with each response to LeaderAndIsr: broker id, broker epoch, response.
        """
        self._versions = versions
        self._context = context
        self._listener_name = listener_name
        self._new_channel = new_channel
        self._requests = RequestBuilder(controller_id, context, listener_name)
        self._channels: dict[int, tuple[ControllerChannel, asyncio.Task[None]]] = {}
        self._on_leader_and_isr = on_leader_and_isr

    # -- channels --------------------------------------------------------------------------------------------------

    def start(self, broker_ids: Iterable[int], create_task: CreateTask) -> None:
        """Open channels to brokers that have registered. Each channel runs as a task."""
        for broker_id in broker_ids:
            address = self._requests.address(broker_id)
            if address is None:
                logger.error("broker %d has no listener %s", broker_id, self._listener_name)
                continue
            channel = self._new_channel(broker_id, address)
            self._channels[broker_id] = (channel, create_task(channel.run()))

    def stop(self, broker_id: int) -> None:
        """Close the channel and drop its queue: the broker's registration has ended."""
        entry = self._channels.pop(broker_id, None)
        if entry is not None:
            entry[1].cancel()

    def stop_all(self) -> None:
        """Close all channels."""
        for broker_id in list(self._channels):
            self.stop(broker_id)

    # -- requests --------------------------------------------------------------------------------------------------

    def announce(self, told: Unannounced, *, except_to: Collection[int] = ()) -> None:
        """Send LeaderAndIsr to the replicas of changed partitions, then UpdateMetadata to all brokers."""
        others = [broker_id for broker_id in self._context.brokers if broker_id not in except_to]
        changed = sorted(told.changed)
        if changed:
            for broker_id in others:
                self.leader_and_isr(broker_id, changed, new=told.new)
        everything = sorted(told.changed | told.published)
        if everything:
            self.update_metadata(others, everything)

    def leader_and_isr(
        self, broker_id: int, keys: Iterable[TopicPartition], *, new: Collection[TopicPartition]
    ) -> None:
        """Send the states of those of `keys` that the broker has a replica of; send nothing if it has none."""
        entry = self._channels.get(broker_id)
        if entry is not None:
            request = self._requests.leader_and_isr(broker_id, keys, new=new)
            if request.topic_states:
                on_answer = partial(self._on_leader_and_isr, broker_id, request.broker_epoch)
                entry[0].send(request, self._versions.leader_and_isr_version, on_answer)

    def update_metadata(self, broker_ids: Iterable[int], keys: Iterable[TopicPartition]) -> None:
        """Send UpdateMetadata with the live brokers and the states of `keys`."""
        keys = list(keys)
        for broker_id in broker_ids:
            entry = self._channels.get(broker_id)
            if entry is not None:
                entry[0].send(self._requests.update_metadata(broker_id, keys), self._versions.update_metadata_version)

    def stop_replicas(
        self, broker_id: int, keys: Iterable[TopicPartition], *, delete: bool, on_answer: OnAnswer | None = None
    ) -> None:
        """Have a broker stop its replicas, or delete them. on_answer: called with the answer."""
        entry = self._channels.get(broker_id)
        if entry is not None:
            request = self._requests.stop_replicas(broker_id, keys, delete=delete)
            entry[0].send(request, self._versions.stop_replica_version, on_answer)

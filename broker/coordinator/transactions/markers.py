"""Sends the markers of decided transactions to the leaders of their partitions.

Each broker is sent one WriteTxnMarkers request at a time, which holds all markers that were queued for the broker since
the last request; this broker sends requests to itself over its listener. A marker that fails is sent again, to the
partition's current leader, until it is written or the coordinator's term is over. The next coordinator sends all
markers of the transaction again: a marker that is written twice does no harm.

A partition is skipped only if it no longer exists in the registry. Its absence from the metadata is not enough: a
coordinator may have loaded its log before the metadata arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any

from broker.cluster.connections import BrokerConnections
from broker.cluster.metadata_cache import MetadataCache
from broker.coordinator.transactions.transaction import TopicPartition
from client.errors import KafkaError
from client.wire.backoff import Backoff
from protocol.error_codes import ErrorCode, code_name
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from registry.errors import RegistryError

logger = logging.getLogger(__name__)

WRITE_TXN_MARKERS_VERSION = 1
DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""The marker is written, or the partition can hold neither markers nor transactional records."""
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition has seen a newer producer or coordinator epoch: this coordinator must not end the transaction."""


class Ending:
    """One decided transaction whose markers are to be written."""

    __slots__ = (
        "attempts",
        "committed",
        "coordinator_epoch",
        "is_current",
        "is_over",
        "missing",
        "on_given_up",
        "on_written",
        "producer_epoch",
        "producer_id",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        committed: bool,
        missing: set[TopicPartition],
        is_current: Callable[[], bool],
        on_written: Callable[[], None],
        on_given_up: Callable[[], None],
    ) -> None:
        """missing: the partitions whose marker is not written yet; entries are removed as markers are written.

        on_written: called once, when `missing` is empty. on_given_up: called once instead, if a newer producer or
        coordinator has fenced this one.
        """
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.committed = committed
        self.missing = missing
        self.is_current = is_current
        self.on_written = on_written
        self.on_given_up = on_given_up
        self.is_over = False
        """Whether all markers are written, or the transaction is given up."""
        self.attempts = 0
        """How often markers of this transaction were delayed."""


Entry = tuple[Ending, frozenset[TopicPartition]]


class TransactionMarkers:
    """See the module docstring."""

    def __init__(
        self,
        brokers: BrokerConnections,
        metadata: MetadataCache,
        count_partitions: Callable[[str], Awaitable[int]],
        start_task: Callable[[Coroutine[Any, Any, None]], object],
        *,
        backoff: Backoff,
    ) -> None:
        """count_partitions: the number of partitions of a topic in the registry, 0 if the topic does not exist.

        start_task: like TaskGroup.create_task.
        """
        self._brokers = brokers
        self._metadata = metadata
        self._count_partitions = count_partitions
        self._start_task = start_task
        self._backoff = backoff
        self._queues: dict[int, list[Entry]] = {}

    def send(self, ending: Ending) -> None:
        """Start to send the markers of a transaction; `ending.on_written` is called when all are written."""
        self._route(ending, ending.missing)

    def _route(self, ending: Ending, partitions: Collection[TopicPartition]) -> None:
        """Queue markers for the current leaders of the partitions; partitions without leader are retried later."""
        if not ending.is_current():
            return
        if not ending.missing:
            self._over(ending, ending.on_written)
            return
        snapshot = self._metadata.snapshot
        by_leader: dict[int, set[TopicPartition]] = {}
        waiting: set[TopicPartition] = set()
        for topic, partition in partitions:
            state = snapshot.partition(topic, partition)
            if state is None or state.leader not in snapshot.brokers:
                waiting.add((topic, partition))
            else:
                by_leader.setdefault(state.leader, set()).add((topic, partition))
        for leader, led in by_leader.items():
            self._queue(leader, (ending, frozenset(led)))
        if waiting:
            self._start_task(self._route_later(ending, waiting))

    def _queue(self, broker_id: int, entry: Entry) -> None:
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.append(entry)
            return
        self._queues[broker_id] = [entry]
        self._start_task(self._empty_queue(broker_id))

    async def _empty_queue(self, broker_id: int) -> None:
        """Send requests to a broker until its queue is empty. There is at most one such task per broker."""
        try:
            while entries := self._queues[broker_id]:
                self._queues[broker_id] = []
                await self._send(broker_id, [entry for entry in entries if entry[0].is_current()])
        finally:
            del self._queues[broker_id]

    async def _send(self, broker_id: int, entries: list[Entry]) -> None:
        if not entries:
            return
        request = WriteTxnMarkersRequest(markers=[_marker(ending, partitions) for ending, partitions in entries])
        try:
            answer = await self._brokers.call(broker_id, request, WriteTxnMarkersResponse, WRITE_TXN_MARKERS_VERSION)
        except KafkaError as error:
            logger.info("broker %d has not written markers of %d transactions: %s", broker_id, len(entries), error)
            for ending, partitions in entries:
                self._start_task(self._route_later(ending, partitions))
            return
        codes: dict[int, dict[TopicPartition, int]] = {}
        for marker in answer.markers:
            of_producer = codes.setdefault(marker.producer_id, {})
            for topic in marker.topics:
                for result in topic.partitions:
                    of_producer[(topic.name, result.partition_index)] = result.error_code
        for ending, partitions in entries:
            of_producer = codes.get(ending.producer_id, {})
            self._answered(ending, {key: of_producer.get(key, ErrorCode.UNKNOWN_SERVER_ERROR) for key in partitions})

    def _answered(self, ending: Ending, codes: dict[TopicPartition, int]) -> None:
        if not ending.is_current():
            return
        again = set()
        for partition, code in codes.items():
            if code in DONE:
                ending.missing.discard(partition)
            elif code in FENCED:
                logger.warning(
                    "the end of transaction %s is given up: %s-%d answers %s",
                    ending.transactional_id,
                    *partition,
                    code_name(code),
                )
                self._over(ending, ending.on_given_up)
                return
            else:
                logger.log(
                    logging.INFO if ending.attempts == 0 else logging.DEBUG,
                    "the marker of %s for %s-%d is not written yet: %s",
                    ending.transactional_id,
                    *partition,
                    code_name(code),
                )
                again.add(partition)
        if again:
            self._start_task(self._route_later(ending, again))
        elif not ending.missing:
            self._over(ending, ending.on_written)

    async def _route_later(self, ending: Ending, partitions: Iterable[TopicPartition]) -> None:
        """Route markers again after a back-off; a partition that no longer exists needs no marker."""
        delay_s = self._backoff.delay_s(ending.attempts)
        ending.attempts += 1
        await asyncio.sleep(delay_s)
        if not ending.is_current() or ending.is_over:
            return
        rest = set()
        for topic, partition in partitions:
            if self._metadata.snapshot.partition(topic, partition) is None and not await self._exists(topic, partition):
                logger.info("%s-%d was deleted: %s needs no marker there", topic, partition, ending.transactional_id)
                ending.missing.discard((topic, partition))
            else:
                rest.add((topic, partition))
        self._route(ending, rest)

    async def _exists(self, topic: str, partition: int) -> bool:
        try:
            return partition < await self._count_partitions(topic)
        except RegistryError:
            return True  # unknown

    def _over(self, ending: Ending, tell: Callable[[], None]) -> None:
        if not ending.is_over:
            ending.is_over = True
            tell()


def _marker(ending: Ending, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return WritableTxnMarker(
        producer_id=ending.producer_id,
        producer_epoch=ending.producer_epoch,
        transaction_result=ending.committed,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=numbers) for topic, numbers in topics.items()],
        coordinator_epoch=ending.coordinator_epoch,
    )

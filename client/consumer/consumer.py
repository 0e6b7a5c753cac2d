"""The consumer: records of topics, alone or in a group.

    async with Consumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        async for record in consumer:
            print(record.topic, record.partition, record.offset, record.value)

In a group, one member at a time reads each partition. A partition moves to another member only between records: never
while the application handles one of its records, and after the handled records are committed. Delivery is at least
once: if a member dies, another member gets its records that are not committed.

Records count as handled when the application asks for more. `enable_auto_commit` commits handled records only. If an
exception ends the `async with` block, the last returned record, or the last records of `getmany`, are not handled.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Unpack

from client.consumer.fetched import ConsumerRecord, FetchedBatches
from client.consumer.group import ConsumerGroup
from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.consumer.group_partitions import Reading
from client.consumer.options import ConsumerKeywords, ConsumerOptions
from client.consumer.reader import Reader
from client.consumer.reader_state import Chunk, PartitionState, Position, known_position
from client.consumer.rebalance_listener import RebalanceListener
from client.consumer.topic_subscription import TopicSubscription
from client.errors import IllegalStateError
from client.options import refuse, refuse_unknown, shows
from client.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class Consumer(Reader):
    """An asyncio consumer; an asynchronous context manager and iterator. All methods belong to one event loop.

    It subscribes to `topics`; without topics call `subscribe` or `assign`. It has the options of `Reader` and these
    (names as in aiokafka and kafka-python; times in ms):

    - `group_id`: the group; without one, the consumer reads all partitions of its topics from `auto_offset_reset` on.
    - `group_instance_id`: makes a static member: a restart within the session timeout moves no partition.
    - `group_protocol`: "classic", or "consumer" for KIP-848, in which the broker assigns the partitions with
      `group_remote_assignor` ("uniform", "range"; None: the broker's default).
    - `partition_assignment_strategy`: assignors of classic groups, preferred first: "range", "roundrobin", "sticky",
      "cooperative-sticky" or objects. If all are cooperative, a rebalance interrupts only partitions that move.
    - `session_timeout_ms`: the group removes a member that sends no heartbeat for this time.
      `heartbeat_interval_ms`: the time between heartbeats. In groups of the new protocol the broker sets both.
    - `max_poll_interval_ms`: the longest time that the application may handle records before it asks for more; a
      rebalance waits for it.
    - `max_poll_records`: the largest number of records that `getmany` returns.
    - `enable_auto_commit`, `auto_commit_interval_ms`: commit handled records periodically.
    - `auto_offset_reset`: also where a group without a committed offset starts: "latest", "earliest" or "none" (raise).
    - `key_deserializer`, `value_deserializer`: functions of bytes.
    - `exclude_internal_topics`: whether patterns ignore internal topics.
    - `api_timeout_ms`: how long commits and fetches of committed offsets are retried.

    Raises InvalidOptionError for a value that breaks a rule.
    """

    @shows(ConsumerOptions)
    def __init__(self, *topics: str, **keywords: Unpack[ConsumerKeywords]) -> None:
        refuse_unknown(keywords, Consumer)
        options = ConsumerOptions(**keywords)
        super().__init__(options)
        self.max_poll_records: Final = options.max_poll_records
        self.enable_auto_commit: Final = options.enable_auto_commit
        self._key_deserializer = options.key_deserializer
        self._value_deserializer = options.value_deserializer
        self._started = self._began = False
        self._lookup: asyncio.Task[None] | None = None
        self._subscription = TopicSubscription(exclude_internal=options.exclude_internal_topics)
        self._group: ConsumerGroup | None = None
        if options.group_id is not None:
            reading = Reading(self._rebalance_lock, self._states, self._add, self._drop, self._failed, self._progress)
            self._group = ConsumerGroup(self._cluster, reading, options.group_id, options)
        self._cluster.metadata_listeners.append(self._metadata_changed)
        if topics:
            self._subscription.set(topics, None)

    # ---- life

    async def start(self) -> None:
        """Connect to the cluster and join the group. `async with` calls it. Raises NoBrokersAvailableError."""
        await super().start()
        self._started = True
        if self._group is not None:
            self._group.start()
        if self._subscription.is_set:
            await self._begin()

    async def __aexit__(self, *exception: object) -> None:
        if exception[0] is not None:
            self._take_back()
        await self.close()

    async def close(self, timeout_s: float | None = 30.0) -> None:
        """Commit (with `enable_auto_commit`), leave the group, close the connections.

        All returned records count as handled. Commit and leave are given up after `timeout_s` (None: never).
        """
        if self._closed:
            return
        self._let_go()
        try:
            if self._group is not None:
                async with asyncio.timeout(timeout_s):
                    await self._group.close()
        except TimeoutError:
            logger.warning("closed without a commit or without leaving the group: no response within %g s", timeout_s)
        finally:
            await super().close()

    def _let_go(self) -> None:
        """Count all returned records as handled."""
        self._chunk = None
        self._in_hand = {}

    def _take_back(self) -> None:
        """Count the records that the application got last as not handled."""
        chunk = self._chunk
        if chunk is not None and chunk.state.position and chunk.state.partition not in self._in_hand:
            chunk.state.position -= 1  # the last record of `async for`
        for partition, first_offset in self._in_hand.items():
            if partition in self._states:
                self._states[partition].position = first_offset

    # ---- subscription

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Replace the subscription: read these topics, or all topics whose whole name matches `pattern`.

        `listener` is called in rebalances. Raises IllegalStateError if partitions are assigned with `assign`,
        InvalidOptionError for no topics or a bad pattern.
        """
        if self._states and not self._subscription.is_set:
            raise IllegalStateError("partitions are assigned with assign(): call unsubscribe() first")
        before = self._subscription.is_set
        self._subscription.set(topics, pattern)
        self._stop_lookup()
        if self._group is not None and listener is not None:
            self._group.partitions.listener = listener
        if self._started:
            if before:
                self._track()
                self._cluster.request_refresh()
                self._metadata_changed()
            else:
                await self._begin()

    async def unsubscribe(self) -> None:
        """Leave the group and stop reading. All returned records count as handled."""
        self._let_go()
        if self._group is not None:
            await self._group.quit()
        self._subscription.clear()
        self._stop_lookup()
        self._drop(list(self._states))

    @property
    def rebalance_listener(self) -> RebalanceListener:
        """The listener that is called in rebalances. Raises IllegalStateError without a group."""
        return self._joined().partitions.listener

    @rebalance_listener.setter
    def rebalance_listener(self, listener: RebalanceListener) -> None:
        self._joined().partitions.listener = listener

    def subscription(self) -> list[str]:
        """The topics of the subscription; with a pattern, those that match it now."""
        return self._subscription.topics(self._cluster.metadata)

    def assign(self, positions: Mapping[TopicPartition, Position] | Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without being a member of the group.

        Each partition starts at its position; without a position at the committed offset of the group, else at
        `auto_offset_reset`. Raises IllegalStateError if there is a subscription, InvalidOptionError.
        """
        if self._subscription.is_set:
            raise IllegalStateError("there is a subscription to topics: call unsubscribe() first")
        self._stop_lookup()
        if isinstance(positions, Mapping):
            super().assign(positions)
            return
        partitions = list(positions)
        super().assign({})
        if self._group is None:
            self._add_beginnings(partitions)
        else:
            asking = self._add_committed(self._group, partitions)
            self._lookup = self._cluster.background.spawn(asking, "committed offsets")

    def incremental_assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Read these partitions, too, each from its position, without being a member of the group.

        Raises IllegalStateError if there is a subscription or a partition is read already, InvalidOptionError.
        """
        if self._subscription.is_set:
            raise IllegalStateError("there is a subscription to topics: call unsubscribe() first")
        super().incremental_assign(positions)

    async def _add_committed(self, group: ConsumerGroup, partitions: Sequence[TopicPartition]) -> None:
        self._add(await group.partitions.states_for(partitions))

    def _stop_lookup(self) -> None:
        """Cancel the fetch of committed offsets: other partitions take the place of these."""
        if self._lookup is not None:
            self._lookup.cancel()
            self._lookup = None

    def _add_beginnings(self, partitions: Iterable[TopicPartition]) -> None:
        beginning = self._options.beginning
        if beginning is None:
            raise refuse("auto_offset_reset", "none", "needs positions, or a group that has committed offsets")
        self._add({name: PartitionState(name, beginning) for name in partitions})

    async def _begin(self) -> None:
        """Start reading the topics of the subscription."""
        self._track()
        await self._cluster.refresh(None if self._subscription.pattern else self._subscription.names)
        if self._group is not None:
            self._group.join(self.subscription)
            return
        for name in self._subscription.names:
            await self._cluster.topic(name, timeout_s=self._options.request_timeout_s)
        self._add_beginnings(self._new_partitions())
        self._began = True

    def _new_partitions(self) -> list[TopicPartition]:
        """The partitions of the topics that are not read yet."""
        known = self._cluster.metadata.topics
        return [
            partition
            for name in self.subscription()
            if name in known
            for number in known[name].partitions
            if (partition := TopicPartition(name, number)) not in self._states
        ]

    def _track(self) -> None:
        self._cluster.tracks_all = self._subscription.pattern is not None
        self._cluster.track(self._subscription.names)

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        super()._drop(partitions)
        self._track()

    def _metadata_changed(self) -> None:
        if self._group is not None:
            self._group.metadata_changed()
        elif self._began and (new := self._new_partitions()):
            self._add({name: PartitionState(name, "beginning") for name in new})

    # ---- the group

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets; None: in each partition the offset after the last returned record.

        An offset is that of the next record to handle. Raises CommitFailedError if the group has removed this member,
        RebalanceInProgressError during a rebalance, IllegalStateError without a group.
        """
        group = self._joined()
        if offsets is None:
            await group.committer.commit(group.partitions.positions())
            return
        await group.committer.commit(group.partitions.with_epochs(offsets))

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions, without partitions that have none."""
        return await self._joined().committer.committed(list(partitions))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The identity of this member, for `Producer.send_offsets`.

        Raises IllegalStateError without a group, CommitFailedError if the group has removed this member.
        """
        return self._joined().commits_as()

    def _joined(self) -> ConsumerGroup:
        if self._group is None:
            raise IllegalStateError("there is no group: pass group_id")
        return self._group

    # ---- records

    async def getmany(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition, in order: at most `max_records` (None: `max_poll_records`).

        Waits for the first record; returns none if `timeout_ms` passes first (None: no limit). The records count as
        handled when the application asks for more. Raises the broker's error, CorruptRecordError, ClosedError.
        """
        most = self.max_poll_records if max_records is None else max_records
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not found:
                    self._hand_out(await self._next_chunk(), most, found)
        except TimeoutError:
            pass
        return found

    def _hand_out(self, chunk: Chunk | None, most: int, found: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        """Move at most `most` fetched records to `found`."""
        while chunk is not None and most > 0:
            state = chunk.state
            self._in_hand.setdefault(state.partition, known_position(state))
            self._chunk = chunk
            try:
                records = list(islice(chunk.records, most))
            except BaseException:
                self._put_back(chunk)
                if not found:
                    raise
                return  # raised by the next call, after these are handled
            if records:
                found.setdefault(state.partition, []).extend(records)
                state.position = records[-1].offset + 1
                most -= len(records)
            if most > 0:
                state.position = chunk.end
                self._chunk = None
                chunk = self._pop()

    def _records_of(self, batches: FetchedBatches) -> Iterator[ConsumerRecord]:
        if self._key_deserializer is None and self._value_deserializer is None:
            return batches.records()
        return map(self._deserialized, batches.records())

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value = record.key, record.value
        if self._key_deserializer is not None and key is not None:
            key = self._key_deserializer(key)
        if self._value_deserializer is not None and value is not None:
            value = self._value_deserializer(value)
        return record._replace(key=key, value=value)

    def _progress(self) -> object:
        chunk = self._chunk
        return self._asked, chunk, None if chunk is None else chunk.state.position

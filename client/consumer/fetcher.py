"""Fetches ahead for a reader: looks up start offsets, long-polls each leader, follows leader changes.

There is one Fetch at a time to a leader, for all its partitions that have room in their buffer. A long poll blocks the
connection, so a partition that gets room meanwhile has to wait. Therefore the poll is short if some partition of the
leader has no room. A leader may name a follower in the client's rack (KIP-392). It is used for `metadata_max_age_ms`,
or until it fails.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from client.consumer.fetched import FetchedBatches
from client.consumer.offsets import list_offsets
from client.consumer.options import ReaderOptions
from client.consumer.reader_state import PartitionState
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from client.wire.backoff import Retries
from client.wire.cluster import Cluster
from client.wire.connection import Connection
from client.wire.metadata import ZERO_ID, PartitionMetadata
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.sentinels import NO_EPOCH

SHORT_WAIT_MS = 20
# Up to this version a request has topic names, later versions have topic ids.
LAST_VERSION_WITH_NAMES = 12
MIN_VERSION = 4
# From this version on a request has the epoch of the last batch, and the response tells where the logs diverge.
FIRST_VERSION_WITH_EPOCHS = 12
# How long to wait for metadata with a leader as new as the last batch. Then the topic counts as recreated.
NEWER_LEADER_PATIENCE_S = 5.0
# A Fetch outside a session (KIP-227).
SESSIONLESS_EPOCH = -1


class Fetcher:
    """Fetches for the partitions in `states`. The reader changes `states`, then calls `wake`."""

    def __init__(
        self,
        cluster: Cluster,
        states: dict[TopicPartition, PartitionState],
        options: ReaderOptions,
        *,
        on_fetched: Callable[[PartitionState, FetchedBatches], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._cluster = cluster
        self._states = states
        self._options = options
        self._on_fetched = on_fetched
        self._on_error = on_error
        # Leaders with a Fetch under way.
        self._polling: set[int] = set()
        self._leader_retries = defaultdict[int, Retries](cluster.retries)
        self._partition_retries = defaultdict[TopicPartition, Retries](cluster.retries)
        self._looking_up = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        # The error of the last Fetch, which is retried; None after a success.
        self.last_error: KafkaError | None = None
        cluster.metadata_listeners.append(self._metadata_changed)

    def close(self) -> None:
        """Start no more requests."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _metadata_changed(self) -> None:
        topics = self._cluster.metadata.topics
        for state in self._states.values():
            known = topics.get(state.partition.topic)
            if state.topic_id is None or known is None or known.topic_id in (state.topic_id, ZERO_ID):
                continue
            try:
                state.recreated(self._options.reset_timestamp)
            except KafkaError as error:
                self._report(state, error)
        self.wake()

    def wake(self) -> None:
        """Start all Fetches and lookups that are possible now."""
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        retry_at = float("inf")
        leader_missing = False
        for state in self._states.values():
            has_room = state.buffered < self._options.max_buffered_bytes
            rests = state.fetch_offset is None or state.paused or not has_room or state.is_complete
            if rests and state.lookup is None:
                continue
            if state.retry_at > now:
                retry_at = min(retry_at, state.retry_at)
                continue
            if state.lookup is not None:
                if not self._looking_up:
                    self._looking_up = True
                    self._cluster.background.spawn(self._look_up(), "offset lookup")
                continue
            source = self._source(state)
            if source is None:
                leader_missing = True
            elif source not in self._polling:
                self._polling.add(source)
                self._cluster.background.spawn(self._poll(source), f"fetch from node {source}")
        if leader_missing:
            self._cluster.request_refresh()
        if retry_at != float("inf"):
            self._timer = loop.call_at(retry_at, self.wake)

    # ---- offsets

    async def _look_up(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while states := [
                state for state in self._states.values() if state.lookup is not None and state.retry_at <= loop.time()
            ]:
                generations = [state.generation for state in states]
                found = await list_offsets(
                    self._cluster,
                    {state.partition: state.lookup for state in states if state.lookup is not None},
                    read_committed=self._options.read_committed,
                    timeout_s=self._options.request_timeout_s,
                )
                for state, generation in zip(states, generations, strict=True):
                    if state.generation == generation:
                        state.found(found[state.partition].offset)
                        self._partition_retries.pop(state.partition, None)
        except KafkaError as error:
            for state in states:
                self._delay(state)
            self._on_error(error)
        finally:
            self._looking_up = False
        self.wake()

    # ---- fetching

    def _source(self, state: PartitionState) -> int | None:
        """The node to fetch a partition from: the preferred read replica or the leader; None if unknown."""
        metadata = self._cluster.metadata
        if state.read_replica is not None:
            now = asyncio.get_running_loop().time()
            if now < state.read_replica_until and state.read_replica in metadata.brokers:
                return state.read_replica
            state.read_replica = None
        if self._is_outdated(state, metadata.partition(state.partition)):
            return None
        return metadata.leader(state.partition)

    def _is_outdated(self, state: PartitionState, known: PartitionMetadata | None) -> bool:
        """Whether the known leader is older than the last batch: it would refuse the offset and the epoch.

        After NEWER_LEADER_PATIENCE_S it counts as current.
        """
        if known is None or not 0 <= known.leader_epoch < state.epochs.latest:
            state.newer_leader_until = None
            return False
        now = asyncio.get_running_loop().time()
        if state.newer_leader_until is None:
            state.newer_leader_until = now + NEWER_LEADER_PATIENCE_S
        if now < state.newer_leader_until:
            return True
        state.forget_epochs()
        return False

    async def _poll(self, leader: int) -> None:
        """Fetch from one broker until no partition needs it."""
        try:
            while states := self._chosen(leader):
                try:
                    connection = await self._cluster.connection(leader)
                    states = self._chosen(leader)  # the leaders may have changed
                    asked = [(state.generation, state.fetch_offset) for state in states]
                    answered = await self._fetch(connection, leader, states) if states else {}
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    self.last_error = error
                    for state in states:
                        state.read_replica = None
                    self._cluster.request_refresh()
                    await self._leader_retries[leader].wait()
                    continue
                self._leader_retries.pop(leader, None)
                self.last_error = None
                for state, asked_for in zip(states, asked, strict=True):
                    data = answered.get(state.partition)
                    if data is not None and self._is_awaited(state, leader, asked_for):
                        try:
                            self._partition_answered(state, data)
                        except (KafkaError, ProtocolError) as error:
                            self._report(state, error)
        except KafkaError as error:
            for state in states:
                self._report(state, error)
        finally:
            self._polling.discard(leader)
        self.wake()

    def _report(self, state: PartitionState, error: Exception) -> None:
        """Report an error to the reader, and delay the next request for the partition."""
        self._delay(state)
        self._on_error(error)

    def _delay(self, state: PartitionState) -> None:
        delay_s = self._partition_retries[state.partition].next_delay_s()
        state.retry_at = asyncio.get_running_loop().time() + delay_s

    def _chosen(self, leader: int) -> list[PartitionState]:
        if self._closed:
            return []
        now = asyncio.get_running_loop().time()
        return [
            state
            for state in self._states.values()
            if state.fetch_offset is not None
            and not state.paused
            and not state.is_complete
            and state.buffered < self._options.max_buffered_bytes
            and state.retry_at <= now
            and self._source(state) == leader
        ]

    def _is_awaited(self, state: PartitionState, leader: int, asked_for: tuple[int, int | None]) -> bool:
        """Whether a response is still wanted: since the request there was no seek and no other leader."""
        if (state.generation, state.fetch_offset) != asked_for:
            return False
        return self._source(state) in (leader, None)

    def _wait_ms(self, leader: int, chosen: int) -> int:
        led = sum(1 for state in self._states.values() if not state.paused and self._source(state) == leader)
        return self._options.fetch_max_wait_ms if led == chosen else min(self._options.fetch_max_wait_ms, SHORT_WAIT_MS)

    async def _fetch(
        self, connection: Connection, leader: int, states: list[PartitionState]
    ) -> dict[TopicPartition, PartitionData]:
        metadata = self._cluster.metadata
        named = metadata.topic_ids_known({state.partition.topic for state in states})
        version = connection.common_version(FetchRequest, None if named else LAST_VERSION_WITH_NAMES)
        if version < MIN_VERSION:
            raise error_for(ErrorCode.UNSUPPORTED_VERSION, f"Fetch version {MIN_VERSION} is needed")
        tells_epochs = version >= FIRST_VERSION_WITH_EPOCHS
        topics: dict[str, FetchTopic] = {}
        for state in states:
            name, number = state.partition
            topic = topics.get(name)
            known = metadata.topics.get(name)
            if topic is None:
                topic_id = ZERO_ID if known is None else known.topic_id
                topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            if topic.topic_id != ZERO_ID:
                state.topic_id = topic.topic_id
            partition = metadata.partition(state.partition)
            assert state.fetch_offset is not None
            topic.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=-1 if partition is None else partition.leader_epoch,
                    fetch_offset=state.fetch_offset,
                    last_fetched_epoch=state.epochs.latest if tells_epochs else NO_EPOCH,
                    partition_max_bytes=self._options.max_partition_fetch_bytes,
                )
            )
        wait_ms = self._wait_ms(leader, len(states))
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=int(self._options.read_committed),
            session_epoch=SESSIONLESS_EPOCH,
            topics=list(topics.values()),
            rack_id=self._options.client_rack,
        )
        response = await connection.call(request, FetchResponse, version)
        if response.error_code:
            raise error_for(response.error_code, context=f"fetch from {connection.host}:{connection.port}")
        answered = {}
        for answer in response.responses:
            name = answer.topic
            if version > LAST_VERSION_WITH_NAMES:
                by_id = metadata.topics_by_id.get(answer.topic_id)
                name = "" if by_id is None else by_id.name
            for data in answer.partitions:
                answered[TopicPartition(name, data.partition_index)] = data
        return answered

    def _partition_answered(self, state: PartitionState, data: PartitionData) -> None:
        code = data.error_code
        diverging = data.diverging_epoch
        if (code or diverging.end_offset >= 0) and state.read_replica is not None:
            state.read_replica = None  # a follower may be behind: ask the leader
            return
        if diverging.end_offset >= 0:
            state.truncated(diverging.epoch, diverging.end_offset, self._options.reset_timestamp)
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.epochs.latest >= 0:
                state.forget_epochs()  # perhaps the leader only does not know the epoch
            else:
                state.reset(self._options.reset_timestamp)
            return
        if code != ErrorCode.NONE:
            error = error_for(code, context=str(state.partition))
            if not error.retriable:
                raise error
            self._delay(state)
            if state.topic_id is not None:
                current = data.current_leader
                self._cluster.learn_leader(state.partition, state.topic_id, current.leader_id, current.leader_epoch)
            self._cluster.request_refresh()
            return
        if data.preferred_read_replica >= 0:
            state.read_replica = data.preferred_read_replica
            state.read_replica_until = asyncio.get_running_loop().time() + self._options.metadata_max_age_ms / 1000
            return
        self._partition_retries.pop(state.partition, None)
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        records = data.records
        if records is None or len(records) == 0:
            return
        assert isinstance(records, (bytes, bytearray, memoryview)), "a response read from the wire is in memory"
        assert state.fetch_offset is not None
        aborted = data.aborted_transactions if self._options.read_committed else None
        batches = FetchedBatches(
            state.partition,
            state.fetch_offset,
            records,
            high_watermark=data.high_watermark,
            aborted=[(entry.producer_id, entry.first_offset) for entry in aborted or ()],
            check_crcs=self._options.check_crcs,
        )
        if not batches.batches:
            raise error_for(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the batch at offset {state.fetch_offset} is larger than the response: raise fetch_max_bytes",
                context=str(state.partition),
            )
        state.epochs.add(batches.batches)
        state.fetch_offset = batches.next_offset
        state.buffered += batches.size_bytes
        self._on_fetched(state, batches)

"""The answer to a Fetch request: ranges of segment files, or errors, for each partition, and what a session tells.

For clients before v4, records are converted, in memory and in another thread.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from broker.errors import code_of
from broker.fetch_sessions import NO_SESSION, FetchSession
from broker.requests.context import RequestContext
from broker.services import Services
from protocol.buffer import Buffer, LazyRecords
from protocol.conversion import down_convert
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError, UnsupportedCompressionError, UnsupportedVersionError
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.record_batch import LOG_OVERHEAD
from protocol.uuid import ZERO_UUID
from replication.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from replication.fetch import CONSUMER, FetchedPartition, FetchParams, FetchPartition
from storage.log.file_records import FileRecords

FIRST_VERSION_WITH_MAGIC_1 = 2
FIRST_VERSION_WITH_MAGIC_2 = 4
FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_LEADER = 16

MAX_CONVERTED_BYTES = 4 << 20
"""The limit for one answer, shared by its partitions: converted records are in memory until they are sent."""

CUT_OFF_MESSAGE = struct.Struct(">qi")  # offset, size
MIN_MESSAGE_BYTES = 26


class FetchAnswer:
    """Builds the response to one request from the fetched partitions."""

    __slots__ = (
        "_context",
        "_converted",
        "_count",
        "_is_follower",
        "_is_incremental",
        "_params",
        "_refused",
        "_services",
        "_session",
    )

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        session: FetchSession | None,
        params: FetchParams,
        wanted: Sequence[FetchPartition],
        refused: Sequence[FetchPartition],
        *,
        is_incremental: bool,
    ) -> None:
        """refused: the partitions that the consumer may not read."""
        self._services = services
        self._refused = refused
        self._context = context
        self._is_follower = params.replica_id != CONSUMER
        self._session = session
        self._params = params
        self._is_incremental = is_incremental
        self._count = len(wanted)
        self._converted: dict[FetchPartition, Buffer] = {}
        """The records of the partitions, for a client before v4."""
        for request in (*wanted, *refused) if refused else wanted:
            if not request.topic and request.topic_id != ZERO_UUID:
                # The topic's id may have become known after the session began.
                request.topic = services.metadata.snapshot.topic_names.get(request.topic_id, "")

    async def build_converted(
        self, fetching: Sequence[FetchedPartition] | asyncio.Future[list[FetchedPartition]]
    ) -> FetchResponse:
        """Return the response for a client before v4, which gets no record batches of magic 2."""
        fetched = await fetching if isinstance(fetching, asyncio.Future) else fetching
        self._context.resume()
        for one in fetched:
            if one.info is not None:
                try:
                    self._converted[one.request] = await self._convert(one.request, one.info.records)
                except (ProtocolError, OSError) as error:
                    one.error = error
        return self.build(fetched)

    def build(self, fetched: Sequence[FetchedPartition]) -> FetchResponse:
        """Return the response: for an incremental fetch only with partitions that have changed, or an empty one if it
        would exceed a quota of the client.
        """
        if self._services.quotas.is_active and not self._is_follower and not self._may_be_sent(fetched):
            return self._empty()
        return self._full(fetched)

    def _may_be_sent(self, fetched: Sequence[FetchedPartition]) -> bool:
        """Count the response for the quotas of the client; return False if it exceeds one."""
        session, context = self._session, self._context
        partitions = [one for one in fetched if not self._is_incremental or self._is_told(session, one)]
        topics: list[FetchableTopicResponse] = []
        for one in partitions:
            _add(topics, one.request, self._partition_data(one, {}))
        pieces = FetchResponse(responses=topics).encode(context.api_version)
        context.throttle_ms, may_be_sent = self._services.quotas.settle_fetch(
            context.principal.name, context.client_id, 4 + sum(map(len, pieces)), context.worked_s
        )
        context.is_settled = True
        return may_be_sent

    @staticmethod
    def _is_told(session: FetchSession | None, one: FetchedPartition) -> bool:
        """Whether the response of an incremental fetch has this partition. Unlike `_is_news`, changes nothing."""
        cached = None if session is None else session.awake.get(session.key_of(one.request))
        return cached is None or cached.request is not one.request or cached.is_news(one)

    def _empty(self) -> FetchResponse:
        """Return the response without data: the session does not change, and no new one begins."""
        session_id = NO_SESSION
        if self._session is not None:
            if self._is_incremental:
                session_id = self._session.id
            else:
                self._services.fetch_sessions.remove(self._session.id)
        return FetchResponse(session_id=session_id, responses=[])

    def _full(self, fetched: Sequence[FetchedPartition]) -> FetchResponse:
        version = self._context.api_version
        session = self._session
        topics: list[FetchableTopicResponse] = []
        endpoints: dict[int, NodeEndpoint] = {}
        for one in fetched:
            if session is not None and not self._is_news(session, one) and self._is_incremental:
                continue
            request = one.request
            data = self._partition_data(one, endpoints)
            if data.records:
                self._sent(request, len(data.records))
            _add(topics, request, data)
        if self._refused:
            topics += _with_code(self._refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        response = FetchResponse(session_id=session.id if session is not None else NO_SESSION, responses=topics)
        if version >= FIRST_VERSION_WITH_LEADER:
            response.node_endpoints = list(endpoints.values())
        return response

    def _is_news(self, session: FetchSession, one: FetchedPartition) -> bool:
        """Whether this result is news to the client. If nothing changed, the session stops polling the partition."""
        key = session.key_of(one.request)
        cached = session.awake.get(key)
        if cached is None or cached.request is not one.request:
            return True  # a faster request of this session has changed the partition meanwhile
        is_news = cached.must_tell(one)
        if one.size_bytes:
            if self._is_incremental:
                session.move_to_end(key)
        elif (
            one.error is None
            and one.diverging is None
            and self._params.preferred_replica is None
            and self._services.replicas.mark_idle(self._params, one, session)
        ):
            session.mark_idle(one.request)
        return is_news

    def _partition_data(self, one: FetchedPartition, endpoints: dict[int, NodeEndpoint]) -> PartitionData:
        request = one.request
        if one.error is not None:
            return self._failed_partition(one, endpoints)
        info = one.info
        assert info is not None
        records: Buffer | LazyRecords = b"" if info.records is None else info.records
        if self._context.api_version < FIRST_VERSION_WITH_MAGIC_2:
            records = self._converted[request]
        elif self._context.api_version < FIRST_VERSION_WITH_ZSTD:
            try:
                self._check_codec(request)
            except UnsupportedCompressionError as error:
                return PartitionData(
                    partition_index=request.partition,
                    error_code=code_of(error),
                    high_watermark=-1,
                    records=b"",
                )
        aborted = info.aborted_transactions
        data = PartitionData(
            partition_index=request.partition,
            high_watermark=one.high_watermark,
            last_stable_offset=one.last_stable_offset,
            log_start_offset=one.log_start_offset,
            aborted_transactions=(
                None
                if aborted is None
                else [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in aborted]
            ),
            records=records,
        )
        if one.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=one.diverging[0], end_offset=one.diverging[1])
        if one.preferred_replica is not None:
            data.preferred_read_replica = one.preferred_replica
        return data

    def _sent(self, request: FetchPartition, size: int) -> None:
        """Count bytes sent; bytes to followers are counted separately, and for the leader's throttle."""
        replicas = self._services.replicas
        partition = replicas.partitions.get((request.topic, request.partition))
        if partition is None:  # deleted meanwhile
            return
        if not self._is_follower:
            partition.fetched_bytes += size
            return
        partition.replicated_bytes_out += size
        if replicas.leader_quota is not None and replicas.leader_quota.applies_to(partition):
            replicas.leader_quota.record(size)

    def _failed_partition(self, one: FetchedPartition, endpoints: dict[int, NodeEndpoint]) -> PartitionData:
        request, error = one.request, one.error
        assert error is not None
        if not request.topic and self._context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            error = UnknownTopicIdError("no topic has this id")
        code = code_of(error)
        if isinstance(error, OffsetNotAvailableError) and self._context.api_version < FIRST_VERSION_WITH_RACK:
            code = ErrorCode.REPLICA_NOT_AVAILABLE  # the retriable code that clients before KIP-207 know
        data = PartitionData(
            partition_index=request.partition,
            error_code=code,
            high_watermark=-1,
            aborted_transactions=[] if isinstance(error, UnknownTopicOrPartitionError | UnknownTopicIdError) else None,
            records=b"",
        )
        if self._context.api_version >= FIRST_VERSION_WITH_LEADER and isinstance(
            error, NotLeaderOrFollowerError | FencedLeaderEpochError
        ):
            snapshot = self._services.metadata.snapshot
            state = snapshot.partition(request.topic, request.partition)
            if state is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
                node = snapshot.node(state.leader, self._context.listener_name)
                if node is not None:
                    endpoints[node.id] = NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        return data

    def _check_codec(self, request: FetchPartition) -> None:
        """Raise UnsupportedCompressionError if the topic is compressed with zstd. For a client before v10."""
        if self._services.configs.topic_config(request.topic).compression_type == "zstd":
            raise UnsupportedCompressionError(
                f"{request.topic} is compressed with zstd, which Fetch before v10 cannot carry"
            )

    async def _convert(self, request: FetchPartition, records: FileRecords | None) -> Buffer:
        """Return the records for a client before v4. Raises ProtocolError, OSError.

        Meanwhile the log may be deleted, compacted or moved: `records` keeps its file open. A truncation does not
        remove what a consumer may read: these records are committed.
        """
        self._check_codec(request)
        if not self._services.configs.topic_config(request.topic).message_downconversion_enable:
            raise UnsupportedVersionError(f"message.downconversion.enable is false for {request.topic}")
        if records is None:
            return b""
        magic = 1 if self._context.api_version >= FIRST_VERSION_WITH_MAGIC_1 else 0
        limit = max(MAX_CONVERTED_BYTES // max(self._count, 1), LOG_OVERHEAD)
        return await self._services.logs.reads.run(lambda: _converted(records, limit, magic, request.offset))


def _with_code(refused: Sequence[FetchPartition], code: ErrorCode) -> list[FetchableTopicResponse]:
    """Return partitions with an error."""
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for one in refused:
        key = (one.topic, one.topic_id)
        if key not in topics:
            topics[key] = FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id)
        topics[key].partitions.append(
            PartitionData(partition_index=one.partition, error_code=code, high_watermark=-1, records=b"")
        )
    return list(topics.values())


def _add(topics: list[FetchableTopicResponse], request: FetchPartition, data: PartitionData) -> None:
    """Add a partition to the topics of a response; those of one topic are together if they follow each other."""
    if topics and (topics[-1].topic, topics[-1].topic_id) == (request.topic, request.topic_id):
        topics[-1].partitions.append(data)
    else:
        topics.append(FetchableTopicResponse(topic=request.topic, topic_id=request.topic_id, partitions=[data]))


def _converted(records: FileRecords, limit: int, magic: int, first_offset: int) -> Buffer:
    """Read and convert about `limit` bytes: at least the first batch, if it is complete."""
    size = min(len(records), limit)
    data = records.read(0, size)
    first = int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    if size < first:
        data = records.read(0, min(first, len(records)))
    converted = down_convert(data, magic, first_offset=first_offset)
    if not converted and len(data):
        # The first batch is larger than the limit, or has no records for this client: a truncated message tells
        # the client so, as in Kafka.
        return CUT_OFF_MESSAGE.pack(-1, max(len(data), MIN_MESSAGE_BYTES))
    return converted

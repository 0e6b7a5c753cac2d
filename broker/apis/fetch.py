"""Fetch: read record batches, with incremental sessions (KIP-227), topic ids (KIP-516) and long polls.

The handler does not read records: the answer contains ranges of segment files, which the connection sends when the
socket is writable. Only for old clients (before v4) are records converted, in memory and in another thread.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence

from broker.errors import code_of
from broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessionError,
    Key,
)
from broker.requests.context import RequestContext
from broker.requests.handler import CancelOnDisconnect, Handler, then
from broker.services import Services
from protocol.buffer import Buffer, LazyRecords
from protocol.conversion import down_convert
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError, UnsupportedCompressionError, UnsupportedVersionError
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
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
from replication.isolation import Isolation
from replication.partition import Partition
from replication.replica_selector import RACK_AWARE, preferred_replica
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation as AclOperation
from security.acls.types import ResourceType
from storage.log.file_records import FileRecords

API = "Fetch"
FIRST_VERSION_WITH_SESSIONS = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_LEADER = 16
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_MAGIC_2 = 4
FIRST_VERSION_WITH_MAGIC_1 = 2
FIRST_VERSION_WITH_ZSTD = 10
LAST_VERSION_WITH_HARD_LIMIT = 2

MAX_CONVERTED_BYTES = 4 << 20
"""The limit for one answer, shared by its partitions: converted records are in memory until they are sent."""

CUT_OFF_MESSAGE = struct.Struct(">qi")  # offset, size
MIN_MESSAGE_BYTES = 26


class FetchHandler(Handler[FetchRequest, FetchResponse]):
    """Reads through the replica manager."""

    __slots__ = ("_is_rack_aware", "_max_bytes", "_services")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._max_bytes = services.config.fetch_max_bytes
        self._is_rack_aware = services.config.replica_selector_class == RACK_AWARE

    def handle(
        self, request: FetchRequest, context: RequestContext
    ) -> FetchResponse | CancelOnDisconnect[FetchResponse | None]:
        """See the module docstring."""
        version = context.api_version
        replica_id = (
            request.replica_state.replica_id if version >= FIRST_VERSION_WITH_REPLICA_STATE else request.replica_id
        )
        if replica_id < 0:
            replica_id = CONSUMER  # -2 was for debugging tools, which count as consumers
        if replica_id != CONSUMER and not self._may_follow(context):
            return FetchResponse(responses=_all_partitions(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        try:
            session, is_incremental = self._session(request, version, is_follower=replica_id >= 0)
        except FetchSessionError as error:
            return FetchResponse(error_code=error.code)
        is_follower = replica_id != CONSUMER
        if session is not None:
            session.replica_id = replica_id
            session.last_fetch_ms = self._services.replicas.rules.now_ms()
            refused = [] if is_follower else self._refused_in(session, context)
            wanted = session.wanted()
        else:
            wanted, refused = [one for _, one in self._wanted(request, version)], []
            if not is_follower:
                wanted, refused = self._split(wanted, context)
        max_bytes = request.max_bytes
        if not is_follower:
            max_bytes = min(max_bytes, self._max_bytes)
            if self._services.quotas.is_active:
                max_bytes = self._services.quotas.largest_fetch(context.principal.name, context.client_id, max_bytes)
        reads_followers = not is_follower and version >= FIRST_VERSION_WITH_RACK
        params = FetchParams(
            replica_id=replica_id,
            broker_epoch=request.replica_state.replica_epoch,
            only_leader=not reads_followers,
            preferred_replica=self._selector(request, context) if reads_followers and self._is_rack_aware else None,
            is_throttled=self._throttle(replica_id) if is_follower else None,
            max_wait_ms=request.max_wait_ms,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            isolation=Isolation(request.isolation_level == 1),
            hard_max_bytes=version <= LAST_VERSION_WITH_HARD_LIMIT,
        )
        answer = _Answer(self._services, context, session, params, wanted, refused, is_incremental=is_incremental)
        fetched = self._services.replicas.fetch(params, wanted, session)
        context.is_settled = is_follower  # replication is not throttled by the quotas of clients
        if version < FIRST_VERSION_WITH_MAGIC_2:
            return CancelOnDisconnect(asyncio.ensure_future(answer.build_converted(fetched)))
        if isinstance(fetched, list):
            return answer.build(fetched)
        return then(fetched, answer.build_after_wait)

    def _may_follow(self, context: RequestContext) -> bool:
        """Whether a client that claims to be a broker may be one; without an authorizer by its listener."""
        access = self._services.access
        if access is None:
            return context.listener_name == self._services.config.inter_broker_listener_name
        return access.allows(context, API, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def _may_read(self, context: RequestContext) -> Callable[[FetchPartition], bool] | None:
        """Return a function that tells whether a consumer may read a partition; None if everybody may."""
        access, names = self._services.access, self._services.metadata.snapshot.topic_names
        if access is None:
            return None

        decided: dict[str, bool] = {}  # each topic is decided on once, not each partition

        def may_read(one: FetchPartition) -> bool:
            topic = one.topic or names.get(one.topic_id, "")
            if not topic and one.topic_id != ZERO_UUID:
                return True  # without a topic of this id, the answer is UNKNOWN_TOPIC_ID for everybody
            allowed = decided.get(topic)
            if allowed is None:
                allowed = access.allows(context, API, AclOperation.READ, ResourceType.TOPIC, topic)
                decided[topic] = allowed
            return allowed

        return may_read

    def _split(
        self, wanted: list[FetchPartition], context: RequestContext
    ) -> tuple[list[FetchPartition], list[FetchPartition]]:
        """Return what the consumer may read, and what it may not."""
        may_read = self._may_read(context)
        if may_read is None:
            return wanted, []
        allowed: list[FetchPartition] = []
        refused: list[FetchPartition] = []
        for one in wanted:
            (allowed if may_read(one) else refused).append(one)
        return allowed, refused

    def _refused_in(self, session: FetchSession, context: RequestContext) -> list[FetchPartition]:
        """Return what the consumer may not read in its session, and keep it from being read."""
        may_read, access = self._may_read(context), self._services.access
        if may_read is None or access is None:
            return []
        return session.refuse(may_read, (context.principal, context.client_address, access.generation))

    def _session(self, request: FetchRequest, version: int, *, is_follower: bool) -> tuple[FetchSession | None, bool]:
        """Return the request's session, if any, and whether the fetch is incremental. Raises FetchSessionError."""
        sessions = self._services.fetch_sessions
        if version < FIRST_VERSION_WITH_SESSIONS:
            return None, False
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                sessions.remove(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return None, False
            wanted = self._wanted(request, version)
            session = sessions.create(len(wanted), is_follower=is_follower, uses_topic_ids=uses_topic_ids)
            if session is not None:
                session.update(wanted, ())
            return session, False
        session = sessions.use(request.session_id, request.session_epoch, uses_topic_ids=uses_topic_ids)
        if request.topics or request.forgotten_topics_data:
            forgotten: list[Key] = [
                (topic.topic_id if uses_topic_ids else topic.topic, partition)
                for topic in request.forgotten_topics_data
                for partition in topic.partitions
            ]
            session.update(self._wanted(request, version), forgotten)
        if not session.partitions:
            sessions.remove(session.id)
            return None, False
        return session, True

    def _selector(
        self, request: FetchRequest, context: RequestContext
    ) -> Callable[[Partition, int], int | None] | None:
        """Find the preferred read replica for this consumer (KIP-392)."""
        if not request.rack_id:
            return None
        snapshot, listener_name = self._services.metadata.snapshot, context.listener_name

        def rack_of(broker_id: int) -> str | None:
            node = snapshot.node(broker_id, listener_name)
            return None if node is None else node.rack

        return lambda partition, offset: preferred_replica(partition, offset, request.rack_id, rack_of)

    def _throttle(self, replica_id: int) -> Callable[[Partition], bool] | None:
        """Return a function that tells whether a partition is throttled for this follower; None without throttling.

        It is throttled if the leader's quota applies to it and the follower is not in its ISR.
        """
        quota = self._services.replicas.leader_quota
        if quota is None or not quota.is_exceeded:
            return None
        return lambda partition: quota.applies_to(partition) and replica_id not in partition.isr

    def _wanted(self, request: FetchRequest, version: int) -> list[tuple[Key, FetchPartition]]:
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        names = self._services.metadata.snapshot.topic_names
        wanted: list[tuple[Key, FetchPartition]] = []
        for topic in request.topics:
            name = names.get(topic.topic_id, "") if by_id else topic.topic
            topic_id = topic.topic_id if by_id else ZERO_UUID
            for one in topic.partitions:
                key: Key = (topic_id if by_id else name, one.partition)
                wanted.append(
                    (
                        key,
                        FetchPartition(
                            name,
                            topic_id,
                            one.partition,
                            one.fetch_offset,
                            one.partition_max_bytes,
                            one.current_leader_epoch,
                            one.log_start_offset,
                            one.last_fetched_epoch,
                        ),
                    )
                )
        return wanted

    def failed(self, request: FetchRequest, code: ErrorCode) -> FetchResponse:
        """Return the answer with the error; outside of a session for each partition, as versions before 7 need it."""
        if request.session_epoch != FINAL_EPOCH:
            return FetchResponse(error_code=code)
        return FetchResponse(error_code=code, responses=_all_partitions(request, code))


def _all_partitions(request: FetchRequest, code: ErrorCode) -> list[FetchableTopicResponse]:
    """Return every partition of a request with the same error."""
    return [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(partition_index=one.partition, error_code=code, high_watermark=-1, records=b"")
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]


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


class _Answer:
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

    def build_after_wait(self, fetched: Sequence[FetchedPartition]) -> FetchResponse:
        """Return the response to a request that has waited for data."""
        self._context.resume()
        response = self.build(fetched)
        self._context.pause()
        return response

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

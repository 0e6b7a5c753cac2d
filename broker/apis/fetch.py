"""Fetch: read record batches, with incremental sessions (KIP-227), topic ids (KIP-516) and long polls.

The handler does not read records: the answer contains ranges of segment files, which the connection sends when the
socket is writable. `broker.fetch_answers` builds the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.authorization.fetch_rights import FetchRights
from broker.fetch_answers import (
    FIRST_VERSION_WITH_MAGIC_2,
    FIRST_VERSION_WITH_RACK,
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchAnswer,
)
from broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchSessionError, Key
from broker.requests.context import RequestContext
from broker.requests.handler import CancelOnDisconnect, Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.uuid import ZERO_UUID
from replication.fetch import CONSUMER, FetchParams, FetchPartition
from replication.isolation import Isolation
from replication.partition import Partition
from replication.replica_selector import RACK_AWARE, preferred_replica

FIRST_VERSION_WITH_SESSIONS = 7
FIRST_VERSION_WITH_REPLICA_STATE = 15
LAST_VERSION_WITH_HARD_LIMIT = 2


class FetchHandler(Handler[FetchRequest, FetchResponse]):
    """Reads through the replica manager."""

    __slots__ = ("_is_rack_aware", "_max_bytes", "_rights", "_services")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rights = FetchRights(services)
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
        is_follower = replica_id != CONSUMER
        if is_follower and not self._rights.may_follow(context):
            return FetchResponse(responses=_all_partitions(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        try:
            session, is_incremental = self._session(request, version, is_follower=is_follower)
        except FetchSessionError as error:
            return FetchResponse(error_code=error.code)
        if session is not None:
            session.replica_id = replica_id
            session.last_fetch_ms = self._services.replicas.rules.now_ms()
            refused = [] if is_follower else self._rights.refused_in(session, context)
            wanted = session.wanted()
        else:
            wanted, refused = [one for _, one in self._wanted(request, version)], []
            if not is_follower:
                wanted, refused = self._rights.split(wanted, context)
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
        answer = FetchAnswer(self._services, context, session, params, wanted, refused, is_incremental=is_incremental)
        fetched = self._services.replicas.fetch(params, wanted, session)
        context.is_settled = is_follower  # replication is not throttled by the quotas of clients
        if version < FIRST_VERSION_WITH_MAGIC_2:
            return CancelOnDisconnect(asyncio.ensure_future(answer.build_converted(fetched)))
        if isinstance(fetched, list):
            return answer.build(fetched)
        return CancelOnDisconnect(fetched, answer.build)

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

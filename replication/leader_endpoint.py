"""Requests of a follower to its leader: records, the ends of epochs, the start and the end of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from client.errors import error_for
from client.wire.node_connection import NodeConnection
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.uuid import ZERO_UUID
from replication.fetch_settings import FetchSettings
from replication.follower_session import FINAL_EPOCH, NO_SESSION, FollowerSession, WantedPartition
from replication.inter_broker_protocol import FETCH_WITH_NAMES, InterBrokerProtocol

Key = tuple[str, int]
EARLIEST = -2
LATEST = -1
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_SESSIONS = 7

SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The leader does not continue the session: the next request begins a new one."""


class LeaderEndpoint:
    """One connection to one leader, used by one task: one request at a time."""

    def __init__(
        self,
        replica_id: int,
        connection: NodeConnection,
        versions: InterBrokerProtocol,
        settings: FetchSettings,
        broker_epoch: Callable[[], int],
        *,
        keeps_session: bool,
    ) -> None:
        """keeps_session: use a fetch session; else every request names all partitions."""
        self._replica_id = replica_id
        self._connection = connection
        self._versions = versions
        self._settings = settings
        self._broker_epoch = broker_epoch
        has_sessions = versions.fetch_version >= FIRST_VERSION_WITH_SESSIONS
        self.session = FollowerSession() if keeps_session and has_sessions else None
        self._names: dict[bytes, str] = {}
        """Names of the requested topics, by id."""

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    async def fetch(self, wanted: dict[Key, WantedPartition], max_wait_ms: int) -> dict[Key, PartitionData]:
        """Return the answer for each partition that has one; none if the leader refuses the session.

        Raises KafkaError, also for a request that fails as a whole.
        """
        by_id = all(one.topic_id != ZERO_UUID for one in wanted.values())
        version = self._versions.fetch_version if by_id else min(self._versions.fetch_version, FETCH_WITH_NAMES)
        by_id = version > FETCH_WITH_NAMES
        session = self.session
        request = self._request(wanted, max_wait_ms, version, by_id=by_id)
        try:
            response = await self._connection.call(request, FetchResponse, version)
        except BaseException:
            if session is not None:
                session.reset(session.session_id)
            raise
        if session is not None:
            session.answered(response.error_code, response.session_id)
        if response.error_code in SESSION_ERRORS:
            return {}
        if response.error_code:
            raise error_for(response.error_code, context="a follower's Fetch")
        answers: dict[Key, PartitionData] = {}
        for topic in response.responses:
            name = self._names.get(topic.topic_id, "") if by_id else topic.topic
            for data in topic.partitions:
                answers[name, data.partition_index] = data
        return answers

    def _request(
        self, wanted: dict[Key, WantedPartition], max_wait_ms: int, version: int, *, by_id: bool
    ) -> FetchRequest:
        settings = self._settings
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
        )
        if version >= FIRST_VERSION_WITH_REPLICA_STATE:
            request.replica_state = ReplicaState(replica_id=self._replica_id, replica_epoch=self._broker_epoch())
        else:
            request.replica_id = self._replica_id
        session = self.session
        named = wanted
        if session is None:
            request.session_id, request.session_epoch = NO_SESSION, FINAL_EPOCH
        else:
            named, forgotten = session.changes(wanted, by_id=by_id)
            request.session_id, request.session_epoch = session.session_id, session.epoch
            for (topic, partition), one in forgotten:
                request.forgotten_topics_data.append(
                    ForgottenTopic(topic=topic, topic_id=one.topic_id, partitions=[partition])
                )
        topics: dict[str, FetchTopic] = {}
        for (topic, partition), one in named.items():
            asked = topics.get(topic)
            if asked is None:
                asked = topics[topic] = FetchTopic(topic=topic, topic_id=one.topic_id)
                self._names[one.topic_id] = topic
            data = FetchPartition(
                partition=partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.offset,
                log_start_offset=one.log_start_offset,
                partition_max_bytes=settings.replica_fetch_max_bytes,
            )
            if one.last_fetched_epoch >= 0:
                data.last_fetched_epoch = one.last_fetched_epoch
            asked.partitions.append(data)
        request.topics = list(topics.values())
        return request

    async def epoch_ends(self, asked: Iterable[tuple[Key, int, int]]) -> dict[Key, EpochEndOffset]:
        """Return where epochs end in the leader's logs. asked: (partition, current leader epoch, epoch).

        Raises KafkaError.
        """
        topics: dict[str, OffsetForLeaderTopic] = {}
        for (name, partition), current_leader_epoch, epoch in asked:
            topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=epoch
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=self._replica_id, topics=list(topics.values()))
        response = await self._connection.call(
            request, OffsetForLeaderEpochResponse, self._versions.offset_for_leader_epoch_version
        )
        return {(topic.topic, one.partition): one for topic in response.topics for one in topic.partitions}

    async def offset(self, key: Key, leader_epoch: int, timestamp: int) -> int:
        """Return the leader's log start offset (EARLIEST) or log end offset (LATEST). Raises KafkaError."""
        asked = ListOffsetsPartition(partition_index=key[1], current_leader_epoch=leader_epoch, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=self._replica_id, topics=[ListOffsetsTopic(name=key[0], partitions=[asked])]
        )
        response = await self._connection.call(request, ListOffsetsResponse, self._versions.list_offsets_version)
        for topic in response.topics:
            for one in topic.partitions:
                if (topic.name, one.partition_index) == key:
                    if one.error_code:
                        raise error_for(one.error_code, context=f"ListOffsets of {key[0]}-{key[1]}")
                    return one.offset
        raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, context=f"ListOffsets has no answer for {key[0]}-{key[1]}")

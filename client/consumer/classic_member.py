"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

In each generation the member joins, receives its assignment, gives up the partitions that are not in it, starts reading
the new ones, and reads until the group rebalances. If all assignors are cooperative (KIP-429), a member keeps its
partitions while it rejoins; else it gives up all of them first (the eager protocol). Heartbeats run in parallel.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from client.consumer.assignors import Assignor, Member
from client.consumer.member import GroupMember, MemberParts, first_of
from client.consumer.subscription import Subscription, decode_assignment, encode_assignment
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from client.wire.connection import Connection
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.message import Message
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

logger = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "consumer"
_FIRST_VERSION_OF_LEAVE_WITH_MEMBERS: Final = 3
# (version, the one to use instead): the version only has a more compact encoding, which librdkafka's mock cluster
# decodes wrongly.
_PLAINER: Final[dict[type[Message], tuple[int, int]]] = {
    JoinGroupRequest: (6, 5),
    SyncGroupRequest: (4, 3),
    LeaveGroupRequest: (4, 2),
}
# Added to the time that the coordinator may delay a response.
_WAIT_MARGIN_S: Final = 5.0
# The group has removed this member.
_GIVEN_UP: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))

Outcome = Literal["rejoin", "lost", "stuck"]


class ClassicMember(GroupMember):
    """See the module."""

    def __init__(self, parts: MemberParts) -> None:
        super().__init__(parts)
        assignors = parts.options.assignors
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self._rejoin_wanted = asyncio.Event()
        self._reason = "joins"
        self._joined_with: tuple[str, ...] = ()
        # As the leader: the numbers of partitions by topic in the last assignment.
        self._divided: dict[str, int] = {}
        # For sticky assignors: the last generation and assignment; with the eager protocol the partitions are given up.
        self._last: tuple[int, tuple[TopicPartition, ...]] = (-1, ())

    async def _take_part(self) -> None:
        if not self._is_cooperative:
            await self._partitions.take_away(self._partitions.owned)
        self._rejoin_wanted.clear()
        outcome: Outcome
        try:
            assigned = await self._sync(await self._join())
        except KafkaError as error:
            if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                outcome = "rejoin"
            elif error.code in _GIVEN_UP:
                outcome = "lost"
            else:
                raise
        else:
            self._has_joined()
            outcome = await first_of(self._follow(assigned), self._beat())
        if outcome == "stuck":
            await self._leave_stuck()
        elif outcome == "lost":
            self._forget()
            await self._partitions.lose_all()

    async def _follow(self, assigned: Collection[TopicPartition]) -> Outcome:
        """Apply the assignment, and read until the group rebalances."""
        going = set(self._partitions.owned) - set(assigned)
        await self._partitions.take_away(going)
        await self._partitions.give(assigned)
        if going:
            self._want_rejoin("has given up partitions that other members wait for")
        await self._rejoin_wanted.wait()
        if not self._is_cooperative:
            await self._partitions.take_away(self._partitions.owned)
        return "rejoin"

    def metadata_changed(self) -> None:
        """Rejoin if the subscribed topics or the numbers of partitions have changed."""
        if tuple(sorted(self._topics())) != self._joined_with:
            self._want_rejoin("its subscription has changed")
        elif self._divided and self._partition_counts(self._divided) != self._divided:
            self._want_rejoin("the number of partitions has changed")

    def _want_rejoin(self, reason: str) -> None:
        self._reason = reason
        self._rejoin_wanted.set()

    # ---- join and sync

    async def _join(self) -> JoinGroupResponse:
        options = self._options
        self._joined_with = tuple(sorted(self._topics()))
        self._divided = {}
        while True:
            connection = await self._coordinator.connection()
            request = JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=round(options.session_timeout_ms),
                rebalance_timeout_ms=round(options.max_poll_interval_ms),
                member_id=self._member_id,
                group_instance_id=options.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(name=assignor.name, metadata=self._subscription(assignor).encode())
                    for assignor in self._assignors.values()
                ],
                reason=self._reason,
            )
            timeout_s = options.max_poll_interval_s + _WAIT_MARGIN_S
            version = _version(connection, JoinGroupRequest)
            response = await connection.call(request, JoinGroupResponse, version, timeout_s=timeout_s)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
                continue
            if response.error_code:
                raise error_for(response.error_code, context=f"join group {self._group_id}")
            self._member_id = response.member_id
            self._generation_id = response.generation_id
            return response

    def _subscription(self, assignor: Assignor) -> Subscription:
        generation_id, last = self._last
        owned = self._partitions.owned
        return Subscription(
            self._joined_with,
            tuple(owned),
            self._generation_id if owned else -1,
            self._options.client_rack or None,
            assignor.user_data(owned or last, generation_id),
        )

    async def _sync(self, joined: JoinGroupResponse) -> tuple[TopicPartition, ...]:
        """Receive the assignment of this member; if it is the leader, send the assignment of all members."""
        options = self._options
        assignments: Mapping[str, Sequence[TopicPartition]] = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._divide(joined)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(given))
                for member_id, given in assignments.items()
            ],
        )
        connection = await self._coordinator.connection()
        timeout_s = options.max_poll_interval_s + _WAIT_MARGIN_S
        version = _version(connection, SyncGroupRequest)
        response = await connection.call(request, SyncGroupResponse, version, timeout_s=timeout_s)
        if response.error_code:
            raise error_for(response.error_code, context=f"sync group {self._group_id}")
        assigned = decode_assignment(response.assignment)
        self._last = (self._generation_id, assigned)
        logger.info(
            "group %s, generation %d, member %s: assigned %s",
            self._group_id,
            self._generation_id,
            self._member_id,
            ", ".join(map(str, assigned)) or "nothing",
        )
        return assigned

    async def _divide(self, joined: JoinGroupResponse) -> dict[str, list[TopicPartition]]:
        """Make the assignment of all members."""
        assignor = self._assignors[joined.protocol_name or ""]
        members = [
            Member(member.member_id, _subscription_of(member.metadata), member.group_instance_id)
            for member in joined.members
        ]
        topics = {topic for member in members for topic in member.subscription.topics}
        self._cluster.track(topics)  # to notice new partitions
        await self._cluster.refresh(topics)
        counts = self._partition_counts(topics)
        self._divided = counts | {topic: 0 for topic in topics if topic not in counts}
        return assignor.assign(members, counts)

    def _partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        known = self._cluster.metadata.topics
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    # ---- heartbeats

    async def _beat(self) -> Outcome:
        """Send heartbeats until the group has removed this member or the application is stuck."""
        while True:
            await asyncio.sleep(min(self._interval_s, self._options.max_poll_interval_s / 4))
            if self._is_stuck():
                return "stuck"
            self._look_for_topics()
            try:
                code = await self._heartbeat()
            except KafkaError as error:
                self._heartbeat_failed(error)
                continue
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._want_rejoin("the group rebalances")
            elif code in _GIVEN_UP:
                return "lost"

    async def _heartbeat(self) -> int:
        """Return the error code: none, rebalance in progress, or member removed. Raises any other error."""
        options = self._options
        connection = await self._coordinator.connection()
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=options.group_instance_id,
        )
        response = await connection.call(request, HeartbeatResponse, timeout_s=options.session_timeout_ms / 1000)
        code = response.error_code
        if code and code != ErrorCode.REBALANCE_IN_PROGRESS and code not in _GIVEN_UP:
            raise error_for(code, context=f"heartbeat of group {self._group_id}")
        return code

    async def leave(self) -> None:
        """Leave, so that the group rebalances before the session times out."""
        if not self._member_id or self._options.group_instance_id is not None:
            return
        connection = await self._coordinator.connection()
        request = LeaveGroupRequest(group_id=self._group_id)
        version = _version(connection, LeaveGroupRequest)
        if version < _FIRST_VERSION_OF_LEAVE_WITH_MEMBERS:
            request.member_id = self._member_id
        else:
            request.members = [MemberIdentity(member_id=self._member_id, reason="the consumer was closed")]
        await connection.call(request, LeaveGroupResponse, version, timeout_s=self._options.request_timeout_s)


def _version(connection: Connection, request: type[Message]) -> int:
    version = connection.common_version(request)
    compact, plainer = _PLAINER[request]
    return plainer if version == compact else version


def _subscription_of(data: bytes) -> Subscription:
    """Decode the subscription of a member; empty if that fails, so that the other members still get partitions."""
    try:
        return Subscription.decode(data)
    except ProtocolError:
        return Subscription(())

"""A classic group: its state, generation and members. No I/O.

    Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance …; Dead from any state

`Membership` (membership.py) changes the group, `ClassicGroups` (groups.py) sets its timers; the committed offsets are
in `offsets`. Source: GroupMetadata of 3.9.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import Counter
from enum import Enum
from typing import ClassVar, NamedTuple

from broker.coordinator.classic.member import Member, Waiter
from broker.coordinator.group_timers import TimerKey
from broker.coordinator.offsets import GroupOffsets
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.versioned import peek_version

CONSUMER = "consumer"
"""The protocol type of consumers, whose metadata contains the topics that they are subscribed to."""

NEWEST_SUBSCRIPTION = 3


class GroupState(Enum):
    """The states of a group, with the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_BEFORE = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState),
}


class InitialDelay(NamedTuple):
    """The delay of a group's first rebalance, so that more members can join."""

    delay_ms: int
    """The length of the current delay."""
    left_ms: int
    """How much longer the rebalance may be delayed after that."""


class Group:
    """A group of the classic protocol."""

    group_type: ClassVar[str] = "classic"
    """The type for ListGroups: the leader of the group assigns the partitions."""

    __slots__ = (
        "generation",
        "group_id",
        "initial_delay",
        "leader_id",
        "member_added",
        "members",
        "offsets",
        "pending_members",
        "pending_sync",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp",
        "static_members",
        "subscribed_topics",
        "timers",
        "waiting_count",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        """Create an empty group."""
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp = now_ms
        """When the group entered its state, in ms; -1 if its record in the log has no timestamp."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_members: set[str] = set()
        """Member ids that were sent to clients which have not joined with them yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members that have not sent SyncGroup in this generation."""
        self.protocol_counts: Counter[str] = Counter()
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that the members are subscribed to; None if they are unknown."""
        self.offsets = GroupOffsets()
        self.member_added = False
        """Whether a member has joined during the initial delay."""
        self.initial_delay: InitialDelay | None = None
        """The initial delay; None if no rebalance is delayed."""
        self.timers: dict[TimerKey, TimerHandle] = {}
        """The running timers. Only `ClassicGroups` changes them."""
        self.waiting_count = 0
        """The number of members whose JoinGroup waits for its answer."""

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True in state Empty."""
        return self.state is GroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        """True in state Dead: the group was deleted, has another coordinator, or has changed its type."""
        return self.state is GroupState.DEAD

    def is_in(self, *states: GroupState) -> bool:
        """Return whether the group is in one of the given states."""
        return self.state in states

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state. Only the transitions in the module docstring are allowed."""
        assert self.state in _BEFORE[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_timestamp = now_ms

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance may begin in the current state."""
        return self.state in _BEFORE[GroupState.PREPARING_REBALANCE]

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the current members. A group without members becomes Empty."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_sync.clear()

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first member becomes the leader and determines the protocol type."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a pending member id. If the leader is removed, another member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self.waiting_count -= member.joining is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, old_id: str, rejoined: Member) -> None:
        """Replace a static member by `Member.rejoined` of it. No JoinGroup of the old one waits."""
        new_id = rejoined.member_id
        assert rejoined.group_instance_id is not None
        self._count(self.members[old_id], -1)
        self.members = {one.member_id: one for one in self._members_with(old_id, rejoined)}
        self._count(rejoined, 1)
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[rejoined.group_instance_id] = new_id

    def with_replaced(self, old_id: str, rejoined: Member) -> Group:
        """Return a copy of the group after `replace_static`: its generation and members. The group does not change."""
        copy = Group(self.group_id, self.state_timestamp)
        copy.generation, copy.protocol_name = self.generation, self.protocol_name
        for member in self._members_with(old_id, rejoined):
            copy.add(member, self.protocol_type or "")
        copy.leader_id = rejoined.member_id if self.leader_id == old_id else self.leader_id
        return copy

    def _members_with(self, old_id: str, rejoined: Member) -> list[Member]:
        return [rejoined if member_id == old_id else member for member_id, member in self.members.items()]

    def update(
        self,
        member: Member,
        protocols: tuple[tuple[str, bytes], ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Update the protocols and timeouts of a member that joins again."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def wait_for_join(self, member: Member, waiter: Waiter[JoinGroupResponse]) -> None:
        """Store the member's JoinGroup, which waits for its answer."""
        assert member.joining is None
        member.joining = waiter
        self.waiting_count += 1

    def end_join(self, member: Member) -> Waiter[JoinGroupResponse] | None:
        """Remove and return the member's waiting JoinGroup; None if none waits."""
        waiter, member.joining = member.joining, None
        self.waiting_count -= waiter is not None
        return waiter

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        """Return the error for a request with these ids; None if they belong to a member."""
        if group_instance_id is not None:
            current_id = self.static_members.get(group_instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode | None:
        """Return the error for a request with these ids and this generation; None if both are current."""
        if self.state is GroupState.DEAD:  # moved or deleted: the client looks for the coordinator again
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(member_id, group_instance_id)
        if error is None and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined. False if no member has joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].joining is not None:
            return True
        joined = next((member for member in self.members.values() if member.joining is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    @property
    def have_all_joined(self) -> bool:
        """True if the rebalance waits for no member and no pending member id."""
        return not self.pending_members and self.waiting_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def member_list(self) -> list[JoinGroupResponseMember]:
        """The members as the leader gets them in its JoinGroup response."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # -- protocols ---------------------------------------------------------------------------------------------------

    def _count(self, member: Member, change: int) -> None:
        for name, _ in member.protocols:
            self.protocol_counts[name] += change
            if not self.protocol_counts[name]:
                del self.protocol_counts[name]

    def supports(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Return whether a member of this protocol type with these protocols can join the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support."""
        candidates = {name for name, count in self.protocol_counts.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(subscribed_topics(member.metadata(self.protocol_name)))
            except (ProtocolError, KeyError):  # a client's own assignor may use other metadata
                return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic, also if the subscriptions are unknown."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def refresh_subscription(self) -> None:
        """Compute the subscribed topics of a group that was read from the log."""
        self.subscribed_topics = self._subscribed_topics()

    def __repr__(self) -> str:
        return (
            f"Group({self.group_id!r}, {self.state.value}, generation={self.generation}, "
            f"members={list(self.members)}, leader={self.leader_id!r})"
        )


def join_error(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Return the JoinGroup response for an error."""
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def subscribed_topics(metadata: bytes) -> list[str]:
    """Return the topics in a consumer's metadata. Raises ProtocolError.

    Unknown newer versions begin with the fields of the newest known version.
    """
    version = min(peek_version(metadata), NEWEST_SUBSCRIPTION)
    subscription, _ = ConsumerProtocolSubscription.decode(metadata, version, 2)
    return subscription.topics

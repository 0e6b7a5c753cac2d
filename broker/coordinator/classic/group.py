"""A classic group: its members, its generation, and the state that it is in. A plain state without I/O.

    Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance …; Dead from everywhere

`Membership` (membership.py) moves it on, `ClassicGroups` (groups.py) sets its timers; its offsets are in
`offsets`. Source: GroupMetadata of 3.9.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import Counter
from enum import Enum
from typing import ClassVar, NamedTuple

from broker.coordinator.classic.decision import TimerKey, Waiter
from broker.coordinator.classic.member import Member
from broker.coordinator.offsets import GroupOffsets
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.versioned import peek_version

CONSUMER = "consumer"
"""The protocol type of consumers: their metadata can be read, to see what they are subscribed to."""

NEWEST_SUBSCRIPTION = 3


class GroupState(Enum):
    """Kafka's states, by the names that clients see."""

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
    """The wait of a group's first rebalance for more members."""

    delay_ms: int
    """How long it waits this time."""
    left_ms: int
    """How much longer it may be put off."""


class Group:
    """One group."""

    group_type: ClassVar[str] = "classic"
    """Its members assign their partitions themselves."""

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
        """A group without members."""
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp = now_ms
        """When the group came into its state, in ms; -1 where the log does not say."""
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_members: set[str] = set()
        """Ids that were given out and not yet joined with (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup."""
        self.protocol_counts: Counter[str] = Counter()
        self.subscribed_topics: frozenset[str] | None = None
        """What consumers are subscribed to; None where that cannot be known."""
        self.offsets = GroupOffsets()
        self.member_added = False
        """A member came while the first rebalance waited for more."""
        self.initial_delay: InitialDelay | None = None
        """Set while the first rebalance waits for more members."""
        self.timers: dict[TimerKey, TimerHandle] = {}
        """The timers that run. Only `ClassicGroups` changes them."""
        self.waiting_count = 0
        """Members whose JoinGroup waits for its answer."""

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True where the group is known to have no members."""
        return self.state is GroupState.EMPTY

    @property
    def is_dead(self) -> bool:
        """True once it has been forgotten here."""
        return self.state is GroupState.DEAD

    def is_in(self, *states: GroupState) -> bool:
        """True in one of these states."""
        return self.state in states

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state; only along the arrows of the module's text."""
        assert self.state in _BEFORE[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state
        self.state_timestamp = now_ms

    @property
    def can_rebalance(self) -> bool:
        """True where a rebalance may begin."""
        return self.state in _BEFORE[GroupState.PREPARING_REBALANCE]

    def begin_generation(self, now_ms: int) -> None:
        """All who will be are here: the next generation, which has no members where nobody is."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_sync.clear()

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """A new member: the first one leads, and says what type of group this is."""
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
        """Forget a member, also one that has only got its id. Another one leads then."""
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

    def replace_static(self, member: Member, new_id: str) -> None:
        """A static member has come back under another member id."""
        old_id = member.member_id
        assert member.group_instance_id is not None
        self.members = {new_id if key == old_id else key: one for key, one in self.members.items()}
        member.member_id = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[member.group_instance_id] = new_id

    def update(
        self,
        member: Member,
        protocols: tuple[tuple[str, bytes], ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """A member joins again, perhaps with other protocols."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def wait_for_join(self, member: Member, waiter: Waiter[JoinGroupResponse]) -> None:
        """The member's JoinGroup waits for its answer from now on."""
        assert member.joining is None
        member.joining = waiter
        self.waiting_count += 1

    def end_join(self, member: Member) -> Waiter[JoinGroupResponse] | None:
        """The member's JoinGroup waits no longer; None where none has."""
        waiter, member.joining = member.joining, None
        self.waiting_count -= waiter is not None
        return waiter

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode | None:
        """What is wrong with a claim to be this member, if anything."""
        if group_instance_id is not None:
            current_id = self.static_members.get(group_instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode | None:
        """The same, and whether the member is of the current generation."""
        if self.state is GroupState.DEAD:  # it has moved, or is being removed: look for its coordinator again
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(member_id, group_instance_id)
        if error is None and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def elect_joined_leader(self) -> bool:
        """Make sure that a member which has joined leads. False where none has."""
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
        """True where the rebalance waits for nobody."""
        return not self.pending_members and self.waiting_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def member_list(self) -> list[JoinGroupResponseMember]:
        """The members as their leader gets them to make an assignment."""
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
        """True where a member of this type, with one of these protocols, can be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The protocol that all members know and most like best."""
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
            except (ProtocolError, KeyError):  # what assignors of a client's own make of it
                return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """True where a member is subscribed to a topic, or may be."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def refresh_subscription(self) -> None:
        """Work out the subscribed topics of a group that was read from the log."""
        self.subscribed_topics = self._subscribed_topics()

    def __repr__(self) -> str:
        return (
            f"Group({self.group_id!r}, {self.state.value}, generation={self.generation}, "
            f"members={list(self.members)}, leader={self.leader_id!r})"
        )


def join_error(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """JoinGroup's answer that the member has not joined."""
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def subscribed_topics(metadata: bytes) -> list[str]:
    """The topics in a consumer's metadata. Raises ProtocolError.

    A version that is newer than we know begins as the newest that we know does.
    """
    version = min(peek_version(metadata), NEWEST_SUBSCRIPTION)
    subscription, _ = ConsumerProtocolSubscription.decode(metadata, version, 2)
    return subscription.topics

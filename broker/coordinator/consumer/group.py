"""A consumer group (KIP-848): its members, their target and current assignments. Plain state, no I/O.

    group epoch              is incremented when members, subscriptions or topics change
    target assignment epoch  the group epoch that the target assignment was computed for
    member epoch             the target assignment epoch that a member has reached; an older one while it revokes

The group changes only by `apply`: the records of a step are written to the log first and then applied, and a broker
that loads the log applies the same records. States: Empty, Assigning (the target assignment is older than the group
epoch), Reconciling (a member has not reached the target assignment), Stable, and Dead (this broker has unloaded it).
Source: ConsumerGroup and ModernGroup.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import ClassVar, TypeAlias

from broker.coordinator.classic.group import Group
from broker.coordinator.consumer.member import LEAVE_EPOCH, NOTHING, Assignment, ConsumerMember
from broker.coordinator.consumer.records import (
    ConsumerRecord,
    current_record,
    group_record,
    group_tombstones,
    member_record,
    read_current,
    read_member,
    read_regex,
    read_target,
    read_topics,
    regex_record,
    target_epoch_record,
    target_record,
    topics_record,
)
from broker.coordinator.consumer.topics import ResolvedRegex, Topics, TopicsImage
from broker.coordinator.group_timers import TimerKey
from broker.coordinator.offsets import GroupOffsets
from protocol.messages.consumer_group_metadata import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

AnyGroup: TypeAlias = "Group | ConsumerGroup"
"""A group of either type."""

NO_EPOCH = -1
"""The epoch of a target assignment that has been deleted."""


class ConsumerGroupState(Enum):
    """Kafka's group states, with the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """See the module docstring."""

    group_type: ClassVar[str] = "consumer"
    """The type of a group whose partitions the coordinator assigns."""

    __slots__ = (
        "assignment_epoch",
        "epoch",
        "group_id",
        "image",
        "is_dead",
        "members",
        "offsets",
        "owners",
        "regexes",
        "static_members",
        "targets",
        "timers",
        "topics",
    )

    def __init__(self, group_id: str, offsets: GroupOffsets | None = None) -> None:
        """Create a group without members. offsets: those already committed for the group id."""
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.targets: dict[str, Assignment] = {}
        """Target assignments by member id."""
        self.topics: Topics = {}
        """The topics that members are subscribed to and that existed at the last comparison with the cluster."""
        self.regexes: dict[str, ResolvedRegex] = {}
        """The resolved regular expressions by pattern."""
        self.owners: dict[tuple[bytes, int], str] = {}
        """The id of the member that owns a partition or is revoking it; there is never more than one."""
        self.offsets = GroupOffsets() if offsets is None else offsets
        self.image: TopicsImage | None = None
        """The cluster's topics that the group's topics were last compared with. Not in the log."""
        self.timers: dict[TimerKey, TimerHandle] = {}
        """The members' timers by kind and member id. Not in the log."""
        self.is_dead = False
        """Whether this broker has unloaded the group: another broker coordinates it, or it is a classic group now."""

    # -- the log -----------------------------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Apply a record. Tombstones of unknown keys are ignored: compaction may leave them in the log."""
        key, value = record
        if isinstance(key, ConsumerGroupMetadataKey):
            self.epoch = value.epoch if isinstance(value, ConsumerGroupMetadataValue) else 0
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            target = ConsumerGroupTargetAssignmentMetadataValue
            self.assignment_epoch = value.assignment_epoch if isinstance(value, target) else NO_EPOCH
        elif isinstance(key, ConsumerGroupPartitionMetadataKey):
            self.topics = read_topics(value) if isinstance(value, ConsumerGroupPartitionMetadataValue) else {}
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
                self.targets[key.member_id] = read_target(value)
            else:
                self.targets.pop(key.member_id, None)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            if isinstance(value, ConsumerGroupRegularExpressionValue):
                self.regexes[key.regular_expression] = read_regex(value)
            else:
                self.regexes.pop(key.regular_expression, None)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            if isinstance(value, ConsumerGroupMemberMetadataValue):
                self._set_member(read_member(self._member(key.member_id), value))
            else:
                self._remove_member(key.member_id)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
                self._set_member(read_current(self._member(key.member_id), value))
            elif key.member_id in self.members:
                self._set_member(
                    self.members[key.member_id]._replace(
                        epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING, revoking=NOTHING
                    )
                )

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id)

    def _set_member(self, member: ConsumerMember) -> None:
        member_id = member.member_id
        before = self.members.get(member_id)
        if before is not None:
            self._release(before)
        for partitions in (member.assigned, member.revoking):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    self.owners[(topic_id, number)] = member_id
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.revoking):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    if self.owners.get((topic_id, number)) == member.member_id:
                        del self.owners[(topic_id, number)]

    def records(self) -> list[ConsumerRecord]:
        """Return the records that create this group, in Kafka's order."""
        group_id, members = self.group_id, self.members.values()
        records = [member_record(group_id, member) for member in members]
        records += [regex_record(group_id, pattern, resolved) for pattern, resolved in self.regexes.items()]
        if self.topics:
            records.append(topics_record(group_id, self.topics))
        records.append(group_record(group_id, self.epoch))
        records += [target_record(group_id, member_id, target) for member_id, target in self.targets.items()]
        records.append(target_epoch_record(group_id, self.assignment_epoch))
        records += [current_record(group_id, member) for member in members]
        return records

    def tombstones(self, replaced: dict[str, str] | None = None) -> list[ConsumerRecord]:
        """Return the records that delete the group. replaced: new member ids by old ones, as already in the log."""
        ids = [(replaced or {}).get(member_id, member_id) for member_id in self.members]
        return group_tombstones(self.group_id, ids, self.regexes)

    def unload(self) -> None:
        """Mark the group as dead and cancel its timers: it is moved to another broker, deleted, or made classic."""
        self.is_dead = True
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()

    # -- derived values ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """See the module docstring."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member owns a partition or is revoking it."""
        return (topic_id, partition) not in self.owners

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of this member's target assignment."""
        return any(
            partition not in member.assigned.get(topic_id, ()) and not self.is_free(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the static member with an instance id; None if there is none."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members are subscribed to, whether they exist or not."""
        return frozenset().union(*(topics_of(member, self.regexes) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is subscribed to a topic."""
        return any(topic in topics_of(member, self.regexes) for member in self.members.values())

    @property
    def classic_count(self) -> int:
        """The number of members that use the classic protocol."""
        return sum(member.classic is not None for member in self.members.values())

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these classic protocols can join: all classic members support one of the protocols."""
        if protocol_type != "consumer":
            return False
        counts = Counter(
            name
            for member in self.members.values()
            if member.classic is not None
            for name in {name for name, _ in member.classic.protocols}
        )
        classic_count = self.classic_count
        return any(counts[name] == classic_count for name in protocols)

    def are_all_classic_but(self, member_id: str) -> bool:
        """Whether this member is the only one that does not use the classic protocol."""
        return self.members[member_id].classic is None and self.classic_count == len(self.members) - 1

    def preferred_assignor(self, members: Iterable[ConsumerMember] | None = None) -> str | None:
        """Return the assignor that most members name; None if no member names one."""
        wanted = Counter(
            member.assignor
            for member in (self.members.values() if members is None else members)
            if member.assignor is not None
        )
        return max(sorted(wanted), key=wanted.__getitem__) if wanted else None

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id!r}, {self.state.value}, epoch={self.epoch}, "
            f"assignment_epoch={self.assignment_epoch}, members={list(self.members)})"
        )


def topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the names of the topics that a member is subscribed to, existing or not. regexes: by pattern."""
    names = frozenset(member.topics)
    resolved = None if member.regex is None else regexes.get(member.regex)
    return names if resolved is None else names | resolved.topics

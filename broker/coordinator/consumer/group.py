"""A consumer group (KIP-848): its members, their target and current assignments. Plain state without timers or I/O.

    group epoch              counts changes of members, subscriptions and topics
    target assignment epoch  the group epoch that the target assignment was made for
    member epoch             the target that a member has got to, or is giving partitions up for

The state is what its records say, and changes by `apply` alone: a step's records are written first and applied then,
and a reader of the log applies the same. Expressed by state: Empty, Assigning (the target is old), Reconciling (a
member is not where the target wants it), Stable; Dead once it has been forgotten here.
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
"""Of a target assignment that has been deleted."""


class ConsumerGroupState(Enum):
    """Kafka's states, by the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """One group."""

    group_type: ClassVar[str] = "consumer"
    """The broker assigns its partitions."""

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
        """A group without members; with the offsets of what it has been so far."""
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.targets: dict[str, Assignment] = {}
        """By member id."""
        self.topics: Topics = {}
        """The topics that members are subscribed to and that existed when this was looked at last."""
        self.regexes: dict[str, ResolvedRegex] = {}
        """By pattern."""
        self.owners: dict[tuple[bytes, int], str] = {}
        """The member that owns a partition, or is giving it up; never two."""
        self.offsets = GroupOffsets() if offsets is None else offsets
        self.image: TopicsImage | None = None
        """The topics of the cluster when the group's were last compared with them. Not in the log."""
        self.timers: dict[tuple[str, str], TimerHandle] = {}
        """By kind and member id. Not in the log."""
        self.is_dead = False
        """It has been forgotten here: another coordinator has it, or it has become a classic group."""

    # -- the log -----------------------------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Become what a record says. Tombstones of what is not there are harmless: compaction may leave them."""
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
        """What makes this group in an empty log, in Kafka's order."""
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
        """What deletes the group. replaced: members that the log has under another id by now."""
        ids = [(replaced or {}).get(member_id, member_id) for member_id in self.members]
        return group_tombstones(self.group_id, ids, self.regexes)

    # -- what follows from it ----------------------------------------------------------------------------------------

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
        """True without members."""
        return not self.members

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """True where nobody owns a partition."""
        return (topic_id, partition) not in self.owners

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """True if another member still owns a partition of this member's target assignment."""
        return any(
            partition not in member.assigned.get(topic_id, ()) and not self.is_free(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members are subscribed to, whether they exist or not."""
        return frozenset().union(*(topics_of(member, self.regexes) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """True where a member is subscribed to a topic."""
        return any(topic in topics_of(member, self.regexes) for member in self.members.values())

    @property
    def classic_count(self) -> int:
        """Members that have joined by JoinGroup."""
        return sum(member.classic is not None for member in self.members.values())

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """True where somebody with one of these classic protocols can be in the group: all such members know it."""
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
        """True where this member is the only one that does not speak the classic protocol."""
        return self.members[member_id].classic is None and self.classic_count == len(self.members) - 1

    def preferred_assignor(self, members: Iterable[ConsumerMember] | None = None) -> str | None:
        """The assignor that most members want; None where nobody wants any."""
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
    """The names of the topics that a member is subscribed to, whether they exist or not. regexes: by pattern."""
    names = frozenset(member.topics)
    resolved = None if member.regex is None else regexes.get(member.regex)
    return names if resolved is None else names | resolved.topics

"""Computes the records of a change of one member. The group itself is only changed by `ConsumerGroup.apply`.

    1. the member         is written if one of its fields has changed
    2. the topics         are computed again if the member's subscription or the cluster's topics have changed
    3. the group epoch    is incremented if the member's subscription or the group's topics have changed
    4. target assignment  is computed again if it is older than the group epoch
    5. the member         takes its next step towards its target assignment

Pure. Source: consumerGroupHeartbeat of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.coordinator.consumer.assignors import ASSIGNORS, Assignments, Subscriber
from broker.coordinator.consumer.group import ConsumerGroup, topics_of
from broker.coordinator.consumer.member import NOTHING, Assignment, ConsumerMember
from broker.coordinator.consumer.reconciliation import Owned, UnknownStateError, reconcile
from broker.coordinator.consumer.records import (
    ConsumerRecord,
    current_record,
    group_record,
    member_record,
    member_tombstones,
    regex_record,
    target_epoch_record,
    target_record,
    topics_record,
)
from broker.coordinator.consumer.regex.errors import InvalidRegexError
from broker.coordinator.consumer.topics import (
    ResolvedRegex,
    SubscribedTopic,
    Topics,
    TopicsImage,
)
from protocol.error_codes import ErrorCode


class GroupError(Exception):
    """A request is rejected, with the error code and the message for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Update(NamedTuple):
    """The result of `update_member`."""

    records: list[ConsumerRecord]
    member: ConsumerMember
    epoch: int
    """The group epoch."""


class _Subscriptions(NamedTuple):
    """The subscriptions of all members of a group, and the records of what has changed in them."""

    regexes: Mapping[str, ResolvedRegex]
    topics: Mapping[str, SubscribedTopic]
    records: list[ConsumerRecord]
    topics_changed: bool


def update_member(
    group: ConsumerGroup,
    before: ConsumerMember,
    after: ConsumerMember,
    *,
    owned: Owned,
    image: TopicsImage,
    now_ms: int,
    default_assignor: str,
) -> Update:
    """Take the steps of the module docstring. Raises GroupError.

    before: the member in the group, or a new `ConsumerMember`. after: the member with the fields of the request.
    """
    group_id = group.group_id
    records: list[ConsumerRecord] = []
    bump = False
    if after != before:
        records.append(member_record(group_id, after))
        bump = after.topics != before.topics or after.regex != before.regex
        if after.regex is not None and after.regex != before.regex:
            _check_regex(after.regex, image)
    replaced_id = group.static_members.get(after.instance_id) if after.instance_id is not None else None
    current = group.targets.get(replaced_id or after.member_id, NOTHING)
    looks = bump or group.image is not image
    members = _members_with(group, after, replaced_id) if looks or group.epoch > group.assignment_epoch else {}
    regexes: Mapping[str, ResolvedRegex] = group.regexes
    topics = group.topics
    if looks:
        subscriptions = _look_at_topics(group, members, image, now_ms)
        regexes, topics = subscriptions.regexes, subscriptions.topics
        records += subscriptions.records
        bump = bump or subscriptions.topics_changed
    epoch = group.epoch
    if bump:
        epoch += 1
        records.append(group_record(group_id, epoch))
    if epoch > group.assignment_epoch:
        target_epoch = epoch
        targets = {after.member_id: current} | {
            member_id: target for member_id, target in group.targets.items() if member_id in members
        }
        assigned = _assign(
            members, targets, regexes, topics, group.preferred_assignor(members.values()), default_assignor
        )
        for member_id, share in assigned.items():
            if share != group.targets.get(member_id):
                records.append(target_record(group_id, member_id, share))
        records.append(target_epoch_record(group_id, epoch))
        target: Assignment = assigned[after.member_id]
    else:
        target_epoch, target = group.assignment_epoch, current
    try:
        stepped = reconcile(after, target=target, target_epoch=target_epoch, owned=owned, is_free=group.is_free)
    except UnknownStateError:
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH, "the member is in an unknown state: it must give up all and join again"
        ) from None
    if stepped != after:
        records.append(current_record(group_id, stepped))
    return Update(records, stepped, epoch)


def _members_with(group: ConsumerGroup, member: ConsumerMember, replaced_id: str | None) -> dict[str, ConsumerMember]:
    members = {one: known for one, known in group.members.items() if one != replaced_id}
    members[member.member_id] = member
    return members


def remove_members(
    group: ConsumerGroup, leaving: list[ConsumerMember], *, image: TopicsImage, now_ms: int
) -> list[ConsumerRecord]:
    """Return the records that remove members and increment the group epoch. The next heartbeat computes the target."""
    records = [record for member in leaving for record in member_tombstones(group.group_id, member.member_id)]
    left = set(group.members) - {member.member_id for member in leaving}
    subscriptions = _look_at_topics(group, {one: group.members[one] for one in left}, image, now_ms)
    return [*records, *subscriptions.records, group_record(group.group_id, group.epoch + 1)]


def replace_static(
    group: ConsumerGroup, old: ConsumerMember, new_id: str
) -> tuple[list[ConsumerRecord], ConsumerMember]:
    """Give a static member another member id: return the records, and the member, which keeps its assignment."""
    member = old._replace(member_id=new_id, epoch=0, previous_epoch=0)
    group_id = group.group_id
    return [
        *member_tombstones(group_id, old.member_id),
        member_record(group_id, member),
        target_record(group_id, new_id, group.targets.get(old.member_id, NOTHING)),
        current_record(group_id, member),
    ], member


def _check_regex(pattern: str, image: TopicsImage) -> None:
    try:
        image.resolve(pattern)
    except InvalidRegexError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {pattern[:100]!r} is not a valid regular expression: {error}",
        ) from None


def _look_at_topics(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], image: TopicsImage, now_ms: int
) -> _Subscriptions:
    """Return the subscriptions of the group with these members, and the records of what has changed in them."""
    records: list[ConsumerRecord] = []
    regexes: dict[str, ResolvedRegex] = {}
    for pattern in sorted({member.regex for member in members.values() if member.regex is not None}):
        known = group.regexes.get(pattern)
        if known is not None and group.image is image:
            regexes[pattern] = known
            continue
        try:
            names = image.resolve(pattern)
        except InvalidRegexError:  # accepted by another coordinator, or with fewer topics: here it matches nothing
            names = frozenset()
        if known is not None and known.topics == names:
            regexes[pattern] = known
            continue
        regexes[pattern] = ResolvedRegex(names, now_ms)
        records.append(regex_record(group.group_id, pattern, regexes[pattern]))
    records += [regex_record(group.group_id, pattern, None) for pattern in group.regexes if pattern not in regexes]
    names = frozenset().union(*(topics_of(member, regexes) for member in members.values()))
    topics = image.describe(sorted(names))
    changed = not _are_alike(topics, group.topics)
    if changed:
        records.append(topics_record(group.group_id, topics))
    return _Subscriptions(regexes, topics, records, changed)


def _are_alike(topics: Topics, others: Topics) -> bool:
    return topics.keys() == others.keys() and all(topic.is_as(others[name]) for name, topic in topics.items())


def _assign(
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Assignment],
    regexes: Mapping[str, ResolvedRegex],
    topics: Topics,
    preferred: str | None,
    default: str,
) -> Assignments:
    sizes = {topic.topic_id: topic.partitions for topic in topics.values()}
    subscribers = {
        member_id: Subscriber(
            member.instance_id,
            frozenset(topics[name].topic_id for name in topics_of(member, regexes) if name in topics),
            targets.get(member_id, NOTHING),
        )
        for member_id, member in members.items()
    }
    assignor = ASSIGNORS.get(preferred or default) or ASSIGNORS[default]
    return assignor(subscribers, sizes)

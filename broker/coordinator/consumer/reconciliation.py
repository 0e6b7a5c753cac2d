"""Computes the next step of a member towards its target assignment: first revoke partitions, then assign free ones.

A member that has to revoke partitions keeps its member epoch until it reports that it no longer owns them
(UNREVOKED_PARTITIONS). Then it gets the epoch of the target assignment and those partitions of it that no other member
owns. If other members still own some, the member waits for these and gets them as they become free
(UNRELEASED_PARTITIONS). So no partition is ever owned by two members.
Pure. Source: KIP-848; CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.consumer.member import NOTHING, Assignment, ConsumerMember, MemberState

Owned = Assignment | None
"""The partitions that a member reports to own; None if the request does not contain them."""


class UnknownStateError(Exception):
    """The state of a member is unknown, from a later version of Kafka: the member has to join again."""


def reconcile(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Owned,
    is_free: Callable[[bytes, int], bool],
) -> ConsumerMember:
    """Return the member after its next step, or `member` itself if there is no step. Raises UnknownStateError."""
    if member.is_reconciled_to(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.revoking):
            return member
        epoch += 1  # the revocation of its epoch is complete, whatever the next step is
    elif member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise UnknownStateError
        epoch = target_epoch
    return _next(member, epoch, target, target_epoch, owned, is_free)


def _next(
    member: ConsumerMember,
    epoch: int,
    target: Assignment,
    target_epoch: int,
    owned: Owned,
    is_free: Callable[[bytes, int], bool],
) -> ConsumerMember:
    kept: dict[bytes, frozenset[int]] = {}
    revoking: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        if partitions & wanted:
            kept[topic_id] = partitions & wanted
        if partitions - wanted:
            revoking[topic_id] = partitions - wanted
    if revoking and _owns_any(owned, revoking):
        return member.with_epoch(epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking
        )
    waits = False
    for topic_id, wanted in target.items():
        missing = wanted - kept.get(topic_id, frozenset())
        free = frozenset(partition for partition in missing if is_free(topic_id, partition))
        waits = waits or free != missing
        if free:
            kept[topic_id] = kept.get(topic_id, frozenset()) | free
    return member.with_epoch(target_epoch)._replace(
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE, assigned=kept, revoking=NOTHING
    )


def _owns_any(owned: Owned, partitions: Assignment) -> bool:
    """Whether the member owns one of these partitions, or may own one because it does not report what it owns."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(some) for topic_id, some in partitions.items())

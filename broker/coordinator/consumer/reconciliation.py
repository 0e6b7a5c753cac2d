"""The next step of a member towards its target assignment: first it gives up, then it gets what is free.

A member that has to give partitions up stays in its epoch until it has said that it does not own them any longer.
Then it comes into the epoch of the target assignment, and gets every partition of it that nobody owns; where somebody
else still does, it waits for that (UNRELEASED_PARTITIONS) and gets them by and by. So no partition is ever owned
twice. Pure. Source: KIP-848; CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.consumer.member import NOTHING, Assignment, ConsumerMember, MemberState

Owned = Assignment | None
"""What a member says it owns; None where it says nothing of it."""


class UnknownStateError(Exception):
    """A member's state is of a later Kafka: it has to begin anew."""


def reconcile(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Owned,
    is_free: Callable[[bytes, int], bool],
) -> ConsumerMember:
    """The member after its next step, or itself where there is none to take. Raises UnknownStateError."""
    if member.is_reconciled_to(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.revoking):
            return member
        epoch += 1  # it has done what was asked for in its epoch, whatever is asked for next
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
    """True where the member owns one of these, or may: it says nothing."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(some) for topic_id, some in partitions.items())

"""The steps of one member from what it owns to its target."""

import pytest

from broker.coordinator.consumer.member import ConsumerMember, MemberState
from broker.coordinator.consumer.reconciliation import UnknownStateError, reconcile

T = b"t" * 16


def step(member, owned, *, target=(0, 1), free=(0, 1, 2, 3)):
    return reconcile(
        member,
        target={T: frozenset(target)},
        target_epoch=5,
        owned=owned,
        is_free=lambda topic_id, partition: partition in free,
    )


def owns(*partitions):
    return {T: frozenset(partitions)} if partitions else {}


def member(state, *assigned, revoking=(), epoch=4):
    return ConsumerMember("m", epoch=epoch, state=state, assigned=owns(*assigned), revoking=owns(*revoking))


def test_a_member_that_is_there_takes_no_step():
    there = member(MemberState.STABLE, 0, 1, epoch=5)
    assert step(there, owns(0, 1)) is there


def test_partitions_are_given_up_before_others_are_taken():
    told = step(member(MemberState.STABLE, 1, 2), owns(1, 2))
    assert (told.state, told.epoch) == (MemberState.UNREVOKED_PARTITIONS, 4)
    assert (told.assigned, told.revoking) == (owns(1), owns(2))
    assert step(told, owns(1, 2)) is told
    assert step(told, None) is told  # it does not say that it has given them up
    done = step(told, owns(1))
    assert (done.state, done.epoch, done.assigned, done.revoking) == (MemberState.STABLE, 5, owns(0, 1), {})


def test_what_another_member_still_owns_is_waited_for():
    waiting = step(member(MemberState.STABLE, 0), owns(0), free=(2, 3))
    assert (waiting.state, waiting.epoch, waiting.assigned) == (MemberState.UNRELEASED_PARTITIONS, 5, owns(0))
    done = step(waiting, owns(0), free=(1,))
    assert (done.state, done.assigned) == (MemberState.STABLE, owns(0, 1))


@pytest.mark.parametrize("owned", [None, owns(0)])
def test_a_member_in_an_unknown_state_joins_again_unless_it_owns_nothing(owned):
    unknown = member(MemberState.UNKNOWN)
    with pytest.raises(UnknownStateError):
        step(unknown, owned)
    assert step(unknown, {}).assigned == owns(0, 1)

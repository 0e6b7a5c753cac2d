"""The offsets of one group: which of two commits counts, what a transaction's end takes with it, what expires."""

import pytest

from broker.coordinator.offsets import CommittedOffset, GroupOffsets

P, Q = ("t", 0), ("t", 1)


@pytest.fixture
def offsets():
    return GroupOffsets()


def commit(offset, **fields):
    return CommittedOffset(offset, -1, "", 1000, **fields)


# -- commits -----------------------------------------------------------------------------------------------------------


def test_a_commit_counts_when_it_is_in_the_log(offsets):
    wanted = {P: commit(5)}
    offsets.begin(wanted)
    assert offsets.is_unstable(P)
    assert not offsets.is_unstable(Q)
    assert offsets.committed == {}
    assert not offsets.is_empty
    offsets.finish(wanted, 70)
    assert offsets.committed == {P: commit(5, log_offset=70)}
    assert not offsets.is_unstable(P)


def test_the_later_one_in_the_log_counts_whichever_finishes_first(offsets):
    first, second = {P: commit(5)}, {P: commit(6)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(first, 70)
    assert offsets.is_unstable(P)
    offsets.finish(second, 71)
    assert offsets.committed[P].offset == 6
    offsets.begin(first)
    offsets.begin(second)
    offsets.finish(second, 81)
    assert not offsets.is_unstable(P)
    offsets.begin(other := {P: commit(7)})
    offsets.finish(first, 80)
    assert offsets.committed[P].offset == 6
    offsets.finish(other, 82)
    assert offsets.committed[P].offset == 7


def test_a_commit_that_cannot_be_written_takes_no_other_with_it(offsets):
    first, second = {P: commit(5), Q: commit(5)}, {P: commit(6)}
    offsets.begin(first)
    offsets.begin(second)
    offsets.fail(first)
    assert offsets.is_unstable(P)
    assert not offsets.is_unstable(Q)
    offsets.begin(equal := {P: commit(6)})
    offsets.fail(second)
    assert offsets.is_unstable(P)
    offsets.fail(equal)
    assert offsets.is_empty


def test_a_commit_of_what_was_deleted_meanwhile_is_no_commit(offsets):
    wanted = {P: commit(5), Q: commit(6)}
    offsets.begin(wanted)
    assert offsets.remove([P]) == []
    offsets.finish(wanted, 70)
    assert list(offsets.committed) == [Q]
    assert offsets.remove([P, Q]) == [Q]
    assert offsets.is_empty


# -- transactions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction(offsets, committed):
    offsets.begin_transactional(7, {P: commit(5, log_offset=70)})
    offsets.begin_transactional(7, {Q: commit(6, log_offset=71)})
    assert offsets.is_unstable(P)
    assert set(offsets.producers) == {7}
    assert not offsets.end_transaction(8, 90, committed=True)
    assert not offsets.end_transaction(7, 90, committed=committed)
    assert {one: found.offset for one, found in offsets.committed.items()} == ({P: 5, Q: 6} if committed else {})
    assert offsets.is_empty is not committed
    assert not offsets.is_unstable(P)


def test_a_late_marker_leaves_the_offsets_of_the_next_transaction(offsets):
    offsets.begin_transactional(7, {P: commit(5, log_offset=70), Q: commit(6, log_offset=90)})
    assert offsets.end_transaction(7, 80, committed=True)
    assert list(offsets.committed) == [P]
    assert offsets.is_unstable(Q)
    assert not offsets.end_transaction(7, 95, committed=True)
    assert set(offsets.committed) == {P, Q}


def test_a_commit_in_a_transaction_does_not_replace_a_later_one(offsets):
    offsets.begin_transactional(7, {P: commit(5, log_offset=70)})
    later = {P: commit(9)}
    offsets.begin(later)
    offsets.finish(later, 75)
    offsets.end_transaction(7, 80, committed=True)
    assert offsets.committed[P].offset == 9


def test_what_is_deleted_is_not_committed_by_a_transaction(offsets):
    offsets.restore({P: commit(1)}, {7: {P: commit(5, log_offset=70), Q: commit(6, log_offset=70)}})
    assert offsets.remove([P]) == [P]
    offsets.end_transaction(7, 80, committed=True)
    assert list(offsets.committed) == [Q]


# -- expiry ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now_ms", "since_ms", "fields", "expires"),
    [
        (5999, None, {}, False),
        (6000, None, {}, True),
        (6000, 2000, {}, False),
        (7000, 2000, {}, True),
        (1999, None, {"expire_timestamp": 2000}, False),
        (2000, None, {"expire_timestamp": 2000}, True),
        (9000, None, {"expire_timestamp": 10_000}, False),
    ],
)
def test_an_offset_expires(offsets, now_ms, since_ms, fields, expires):
    offsets.restore({P: commit(5, **fields)}, {})
    assert offsets.expired(now_ms, 5000, since_ms) == ([P] if expires else [])


def test_what_is_in_use_or_being_written_does_not_expire(offsets):
    other = ("u", 0)
    offsets.restore({P: commit(5), Q: commit(5), other: commit(5)}, {})
    assert offsets.expired(9000, 5000, in_use={"u"}) == [P, Q]
    offsets.begin({P: commit(6)})
    assert offsets.expired(9000, 5000, in_use={"u"}) == [Q]

"""The lag of a group over time, its rates, and when it has caught up."""

import pytest

from client.topic_partition import TopicPartition
from console.groups.history import MAX_PARTITIONS, Estimate, LagHistory, Status, combined

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def history(*positions, step_s=10):
    """The history of one partition with these (committed, end), a sample every ten seconds."""
    found = LagHistory()
    for number, position in enumerate(positions):
        found.add(number * step_s * 1000, {ONE: position})
    return found


def steps(committed, end, consumed, produced, count=10):
    return [(committed + n * consumed, end + n * produced) for n in range(count)]


@pytest.mark.parametrize(
    ("positions", "status", "caught_up_in_s"),
    [
        (steps(100, 100, 10, 10), Status.CAUGHT_UP, 0.0),
        ([(120, 100)], Status.CAUGHT_UP, 0.0),
        (steps(90, 100, 10, 10), Status.KEEPING_UP, None),
        (steps(0, 1000, 30, 10), Status.CATCHING_UP, (1000 - 180) / 2),
        (steps(0, 1000, 10, 30), Status.FALLING_BEHIND, None),
        (steps(0, 1000, 0, 10), Status.STALLED, None),
        ([(0, 1000)], Status.UNKNOWN, None),
        ([(900, 1000), (900, 1000), (0, 1000)], Status.UNKNOWN, None),
        ([(900, 1000), (0, 1000), (100, 1000)], Status.CATCHING_UP, 90.0),
    ],
    ids=["caught up", "beyond the end", "keeps up", "catches up", "falls behind", "stalled", "new", "reset", "again"],
)
def test_estimates(positions, status, caught_up_in_s):
    found = history(*positions).estimate(ONE)
    assert (found.status, found.caught_up_in_s) == (status, caught_up_in_s)


def test_rates_and_how_far_behind():
    found = history(*steps(0, 500, 20, 50, 30)).estimate(ONE)
    assert (found.consumed_per_s, found.produced_per_s) == (2.0, 5.0)
    assert found.behind_s == (29 - 1) * 10  # 580 records are read: the log ended at 550 then


def test_a_partition_without_a_commit_has_no_estimate():
    found = history((None, 5))
    assert (found.estimate(ONE), found.lags(ONE), found.estimate(TWO)) == (None, [None], None)


def test_only_one_sample_in_ten_seconds_is_kept_and_those_of_half_an_hour():
    found = history(*steps(0, 10, 0, 1, 3_000), step_s=1)
    assert len(found.times_ms) == 181  # and the latest
    assert found.times_ms[0] >= 2_999_000 - 1_800_000
    assert found.lags(ONE)[-1] == 10 + 2_999
    assert found.total_lags([ONE, TWO])[-1] == 10 + 2_999


def test_partitions_are_bounded_and_new_ones_have_no_past():
    found = LagHistory()
    found.add(0, {ONE: (0, 5)})
    found.add(10_000, {TopicPartition("big", n): (0, 1) for n in range(2 * MAX_PARTITIONS)} | {ONE: (0, 6)})
    assert found.lags(TopicPartition("big", 0)) == [None, 1]
    assert found.lags(TopicPartition("big", 2 * MAX_PARTITIONS - 1)) == []
    assert found.lags(ONE) == [5, 6]


def test_the_worst_partition_decides():
    slow = Estimate(Status.CATCHING_UP, 2.0, 1.0, 9.0, 60.0)
    fast = Estimate(Status.CATCHING_UP, 2.0, 1.0, 5.0, 30.0)
    stalled = Estimate(Status.STALLED, 0.0, 1.0)
    assert combined([slow, fast]) == Estimate(Status.CATCHING_UP, 4.0, 2.0, 9.0, 60.0)
    assert combined([slow, stalled]) == Estimate(Status.STALLED, 2.0, 2.0, None, None)
    assert combined([]) is None

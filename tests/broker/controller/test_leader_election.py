"""Who leads, as tables."""

import pytest

from broker.controller.leader_election import (
    Elected,
    elect_after_loss,
    elect_for_new_partition,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_preferred,
)


@pytest.mark.parametrize(
    ("replicas", "live", "elected"),
    [
        ([1, 2, 3], {1, 2, 3}, Elected(1, [1, 2, 3])),
        ([3, 1, 2], {1, 2}, Elected(1, [1, 2])),  # the preferred one is away
        ([1, 2, 3], {3, 9}, Elected(3, [3])),
        ([1, 2, 3], {9}, None),
        ([1, 2, 3], set(), None),
        ([], {1}, None),
    ],
)
def test_a_new_partition(replicas, live, elected):
    assert elect_for_new_partition(replicas, live) == elected


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "unclean", "elected"),
    [
        ([1, 2, 3], [1, 2, 3], {2, 3}, False, Elected(2, [2, 3])),
        ([1, 2, 3], [3, 2, 1], {2, 3}, False, Elected(2, [3, 2])),  # preference is the replicas' order
        ([1, 2, 3], [1, 3], {2, 3}, False, Elected(3, [3])),  # live, but out of sync
        ([1, 2, 3], [1, 3], {2, 3}, True, Elected(3, [3])),  # unclean only where nothing else is left
        ([1, 2, 3], [1], {2, 3}, False, None),
        ([1, 2, 3], [1], {2, 3}, True, Elected(2, [2], is_clean=False)),
        ([1, 2, 3], [1], {9}, True, None),
        ([1, 2, 3], [], {2}, False, None),
        ([1, 2, 3], [], {2}, True, Elected(2, [2], is_clean=False)),
        ([1, 2], [9, 2], {9, 2}, False, Elected(2, [9, 2])),  # who is no replica does not lead
    ],
)
def test_a_lost_leader(replicas, isr, live, unclean, elected):
    assert elect_after_loss(replicas, isr, live, unclean=unclean) == elected


@pytest.mark.parametrize(
    ("target", "isr", "live", "elected"),
    [
        ([2, 3], [1, 3, 2], {1, 2, 3}, Elected(2, [1, 3, 2])),
        ([2, 3], [1, 2, 3], {1, 3}, Elected(3, [1, 2, 3])),
        ([2, 3], [1, 3], {1, 2, 3}, Elected(3, [1, 3])),  # live, but out of sync
        ([2, 3], [1, 2], {1, 3}, None),
        ([], [1], {1}, None),
    ],
)
def test_a_reassigned_partition(target, isr, live, elected):
    assert elect_for_reassignment(target, isr, live) == elected


@pytest.mark.parametrize(
    ("replicas", "isr", "online", "shutting_down", "elected"),
    [
        ([1, 2, 3], [1, 2, 3], {1, 2, 3}, {1}, Elected(2, [2, 3])),
        ([1, 2, 3], [1, 2, 3], {1, 3}, {1}, Elected(3, [2, 3])),
        ([1, 2, 3], [1, 3], {1, 2, 3}, {1}, Elected(3, [3])),
        ([1, 2, 3], [1, 2, 3], {1, 2, 3}, {1, 2}, Elected(3, [3])),
        ([1, 2], [1], {1, 2}, {1}, None),
    ],
)
def test_a_leader_that_shuts_down(replicas, isr, online, shutting_down, elected):
    assert elect_for_shutdown(replicas, isr, online, shutting_down) == elected


@pytest.mark.parametrize(
    ("isr", "live", "elected"),
    [([2, 1], {1, 2}, Elected(1, [2, 1])), ([2], {1, 2}, None), ([2, 1], {2}, None)],
)
def test_the_preferred_leader(isr, live, elected):
    assert elect_preferred([1, 2], isr, live) == elected

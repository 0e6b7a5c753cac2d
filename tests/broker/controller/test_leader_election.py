"""Who leads, as tables."""

import pytest

from broker.controller.leader_election import Elected, elect_after_loss, elect_for_new_partition


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

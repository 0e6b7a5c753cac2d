"""The high watermark as arithmetic: tables of replicas, in-sync replicas and log end offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.follower_progress import UNKNOWN_OFFSET
from replication.in_sync_replicas import InSyncReplicas


def replicas(all_of, isr, offsets):
    made = InSyncReplicas(0, all_of, isr)
    made.end_offsets.update(offsets)
    return made


@pytest.mark.parametrize(
    ("all_of", "isr", "offsets", "current", "leader_end", "min_isr", "expected"),
    [
        # alone: whatever the leader has is committed, min.insync.replicas or not
        ([0], [0], {}, 0, 7, 1, 7),
        ([0], [0], {}, 0, 7, 3, 7),
        ([0], [0], {}, 9, 7, 1, 9),
        # the slowest in-sync replica decides
        ([0, 1, 2], [0, 1, 2], {1: 5, 2: 3}, 0, 7, 1, 3),
        ([0, 1, 2], [0, 1, 2], {1: 9, 2: 8}, 0, 7, 1, 7),
        # who is out of sync does not
        ([0, 1, 2], [0, 1], {1: 5, 2: 3}, 0, 7, 1, 5),
        ([0, 1, 2], [0], {1: 5, 2: 3}, 0, 7, 1, 7),
        # a follower that has not fetched in this epoch holds it where it is
        ([0, 1], [0, 1], {1: UNKNOWN_OFFSET}, 4, 7, 1, 4),
        # it never goes back
        ([0, 1], [0, 1], {1: 2}, 4, 7, 1, 4),
        # it stands still below min.insync.replicas, of which there are never more than replicas
        ([0, 1, 2], [0], {1: 5, 2: 3}, 2, 7, 2, 2),
        ([0, 1, 2], [0, 1], {1: 5, 2: 3}, 2, 7, 2, 5),
        ([0, 1], [0, 1], {1: 5}, 2, 7, 9, 5),
        ([0, 1], [0], {1: 5}, 2, 7, 9, 2),
        # an in-sync replica that is none of the replicas is not known to have anything
        ([0, 1], [0, 5], {1: 5}, 2, 7, 1, 2),
    ],
)
def test_high_watermark(all_of, isr, offsets, current, leader_end, min_isr, expected):
    assert replicas(all_of, isr, offsets).high_watermark(current, leader_end, min_isr) == expected


@pytest.mark.parametrize(
    ("all_of", "isr", "min_isr", "under"),
    [([0], [0], 3, False), ([0, 1], [0], 2, True), ([0, 1], [0, 1], 3, False), ([0, 1, 2], [0, 1], 3, True)],
)
def test_under_min_isr(all_of, isr, min_isr, under):
    assert replicas(all_of, isr, {}).is_under_min_isr(min_isr) is under


@given(
    st.integers(0, 20),
    st.lists(st.integers(-1, 20), min_size=0, max_size=4),
    st.integers(0, 20),
    st.integers(1, 6),
    st.data(),
)
def test_what_is_committed_is_on_every_in_sync_replica(leader_end, offsets, current, min_isr, data):
    all_of = list(range(len(offsets) + 1))
    isr = [0, *data.draw(st.lists(st.sampled_from(all_of[1:]), unique=True))] if offsets else [0]
    made = replicas(all_of, isr, dict(enumerate(offsets, 1)))
    moved = made.high_watermark(current, leader_end, min_isr)
    assert moved >= current
    if moved > current:
        assert moved <= leader_end
        assert all(made.end_offsets[replica] >= moved for replica in isr if replica)
        assert len(all_of) == 1 or len(isr) >= min(min_isr, len(all_of))

"""The high watermark as arithmetic: tables of replicas, in-sync replicas and log end offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.sentinels import UNKNOWN_OFFSET
from replication.errors import NotLeaderOrFollowerError
from replication.in_sync_replicas import REFUSED_MS, InSyncReplicas, LagRules


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
def test_committed_records_are_on_every_in_sync_replica(leader_end, offsets, current, min_isr, data):
    all_of = list(range(len(offsets) + 1))
    isr = [0, *data.draw(st.lists(st.sampled_from(all_of[1:]), unique=True))] if offsets else [0]
    made = replicas(all_of, isr, dict(enumerate(offsets, 1)))
    moved = made.high_watermark(current, leader_end, min_isr)
    assert moved >= current
    if moved > current:
        assert moved <= leader_end
        assert all(made.end_offsets[replica] >= moved for replica in isr if replica)
        assert len(all_of) == 1 or len(isr) >= min(min_isr, len(all_of))


# -- changes of the ISR ------------------------------------------------------------------------------------------------


class Cluster:
    """A leader 0 with followers 1 and 2, and a clock."""

    def __init__(self, isr=(0, 1, 2), **rules):
        self.now_ms = 1_000
        self.dead = set()
        rules = LagRules(now_ms=lambda: self.now_ms, max_lag_ms=100, is_alive=lambda one: one not in self.dead, **rules)
        self.sync = InSyncReplicas(0, [0, 1, 2], isr, rules)

    def fetch(self, replica, offset, leader_end=10, epoch=1):
        return self.sync.fetched(replica, offset, 0, leader_end, epoch)

    def watermark(self, current=0, leader_end=10):
        return self.sync.high_watermark(current, leader_end, 1)

    def may_join(self, replica, high_watermark=5, epoch_start=5, leader_end=10):
        return self.sync.may_join(replica, high_watermark, epoch_start, leader_end)


def test_a_joining_replica_counts_before_the_decision():
    """Else what is committed between the two would be missing on an in-sync replica."""
    made = Cluster(isr=(0, 1))
    made.fetch(1, 10)
    made.fetch(2, 7)
    made.now_ms += 1_000
    assert made.watermark() == 10
    made.sync.propose(joining=2)
    assert made.sync.maximal_isr == (0, 1, 2)
    assert made.sync.isr == (0, 1)
    assert made.watermark() == 7
    made.sync.pending = None
    assert made.watermark() == 10


def test_a_leaving_replica_counts_until_the_decision():
    made = Cluster()
    made.fetch(1, 10)
    made.fetch(2, 7)
    pending = made.sync.propose(leaving=[2])
    assert (pending.isr, made.sync.maximal_isr) == ((0, 1), (0, 1, 2))
    assert made.watermark() == 7


def test_min_insync_replicas_counts_only_the_decided_isr():
    made = Cluster(isr=(0,))
    made.fetch(1, 10)
    made.sync.propose(joining=1)
    assert made.sync.is_under_min_isr(2)
    assert made.sync.high_watermark(3, 10, 2) == 3


def test_a_caught_up_replica_outside_the_isr_is_waited_for():
    made = Cluster(isr=(0, 1))
    made.fetch(1, 10)
    made.fetch(2, 10)  # caught up now
    assert made.watermark(leader_end=12) == 10
    made.fetch(1, 12, leader_end=12)
    assert made.watermark(leader_end=12) == 10  # 2 is waited for
    made.dead.add(2)
    assert made.watermark(leader_end=12) == 12
    made.dead.clear()
    made.now_ms += 101
    assert made.watermark(leader_end=12) == 12


def test_a_replica_outside_the_isr_that_is_too_many_messages_behind_is_not_waited_for():
    made = Cluster(isr=(0, 1), max_lag_messages=3)
    made.fetch(1, 10)
    made.fetch(2, 10)
    made.fetch(1, 14, leader_end=14)
    assert made.watermark(leader_end=13) == 10
    assert made.watermark(leader_end=14) == 14


@pytest.mark.parametrize(
    ("end", "high_watermark", "epoch_start", "joins"),
    [(5, 5, 5, True), (4, 5, 0, False), (5, 0, 6, False), (6, 5, 6, True)],
)
def test_a_replica_may_join_with_all_committed_records_and_the_current_epoch(end, high_watermark, epoch_start, joins):
    made = Cluster(isr=(0, 1))
    made.fetch(2, end)
    assert made.may_join(2, high_watermark, epoch_start) is joins
    assert not made.may_join(1)  # it is there already
    made.dead.add(2)
    assert not made.may_join(2, high_watermark, epoch_start)
    made.dead.clear()
    made.sync.propose(leaving=[1])
    assert not made.may_join(2, high_watermark, epoch_start)  # one change at a time


def test_when_a_replica_is_out_of_sync():
    made = Cluster()
    made.fetch(1, 10)
    made.now_ms += 100
    assert made.sync.out_of_sync(10) == []  # 2 has not fetched, but the epoch has begun just now
    made.now_ms += 1
    assert made.sync.out_of_sync(10) == [2]
    assert made.sync.out_of_sync(11) == [1, 2]
    made.sync.propose(leaving=[2])
    assert made.sync.out_of_sync(11) == []


def test_a_follower_of_a_busy_partition_is_in_sync_without_reaching_the_end():
    made = Cluster()
    for end in range(10, 200, 10):
        made.fetch(1, end - 10, leader_end=end)
        made.now_ms += 50
        assert 1 not in made.sync.out_of_sync(end)
    made.now_ms += 101
    made.fetch(1, 180, leader_end=300)  # as far as it was told the last time, and that is too long ago
    assert 1 in made.sync.out_of_sync(300)


def test_a_refused_replica_waits_unless_it_registers_again():
    """Each fetch would propose it: a broker that stops still fetches, for all of its partitions."""
    made = Cluster(isr=(0, 1))
    made.fetch(2, 10)
    made.sync.note_refusal(2, broker_epoch=1)
    assert not made.may_join(2)
    made.now_ms += REFUSED_MS - 1
    assert not made.may_join(2)
    made.now_ms += 1
    assert made.may_join(2)
    made.sync.note_refusal(2, broker_epoch=1)
    made.fetch(2, 10, epoch=2)  # it has restarted
    assert made.may_join(2)


def test_a_replica_too_many_messages_behind_is_out_of_sync_if_configured():
    made = Cluster(isr=(0, 1), max_lag_messages=3)
    made.fetch(1, 6)
    made.fetch(2, 6)
    assert made.sync.out_of_sync(10) == [1]
    assert not made.may_join(2)
    made.fetch(2, 7)
    assert made.may_join(2)


@pytest.mark.parametrize("end", [UNKNOWN_OFFSET, 0])
def test_a_follower_without_records_is_as_far_behind_as_the_leaders_end(end):
    made = Cluster(isr=(0, 1), max_lag_messages=3)
    made.sync.end_offsets[1] = end
    assert made.sync.out_of_sync(3) == []
    assert made.sync.out_of_sync(4) == [1]


def test_a_follower_beyond_the_leaders_end_is_out_of_sync_if_it_does_not_fetch():
    made = Cluster(isr=(0, 1))
    made.fetch(1, 12)
    made.now_ms += 100
    assert made.sync.out_of_sync(10) == []
    made.now_ms += 1
    assert made.sync.out_of_sync(10) == [1]


def test_requests_with_an_older_broker_epoch_are_ignored():
    made = Cluster()
    made.fetch(1, 10, epoch=7)
    with pytest.raises(NotLeaderOrFollowerError, match="broker epoch 6"):
        made.fetch(1, 3, epoch=6)
    assert made.sync.end_offsets[1] == 10
    made.fetch(1, 4, epoch=8)  # a new life may have less
    assert made.sync.end_offsets[1] == 4

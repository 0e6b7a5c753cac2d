"""acks=all: when the answer comes, and which."""

from types import SimpleNamespace

import pytest

from replication.delayed_produce import DelayedProduce
from replication.errors import (
    CommitTimedOutError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from replication.in_sync_replicas import InSyncReplicas


class Partition:
    def __init__(self, high_watermark, isr=(1, 2), min_isr=1, error=None):
        self.isr = isr
        self.sync = InSyncReplicas(1, (1, 2), isr, 0)
        self._error = error
        self.log = SimpleNamespace(high_watermark=high_watermark, config=SimpleNamespace(min_insync_replicas=min_isr))

    def leads_again(self, high_watermark):
        self._error = None
        self.log.high_watermark = high_watermark

    def leader_log(self):
        if self._error is not None:
            raise self._error
        return self.log


def produced(**partitions):
    """An append to partitions of topic t, of which the high watermark must reach 10."""

    def get(topic, partition, topic_id):
        found = partitions[f"p{partition}"]
        if found is None:
            raise UnknownTopicOrPartitionError("gone")
        return found

    return DelayedProduce({("t", int(name[1:])): 10 for name in partitions}, get)


@pytest.mark.parametrize(
    ("partition", "satisfied", "outcome"),
    [
        (Partition(9), False, CommitTimedOutError),
        (Partition(10), True, None),
        (Partition(11), True, None),
        (Partition(9, isr=(1,), min_isr=2), False, CommitTimedOutError),
        (Partition(10, isr=(1,), min_isr=2), True, NotEnoughReplicasAfterAppendError),
        (Partition(0, error=NotLeaderOrFollowerError("elsewhere")), True, NotLeaderOrFollowerError),
        (None, True, UnknownTopicOrPartitionError),
    ],
)
def test_outcomes(partition, satisfied, outcome):
    operation = produced(p0=partition)
    assert operation.is_satisfied() is satisfied
    [(key, error)] = operation.complete().items()
    assert key == ("t", 0)
    assert error is None if outcome is None else type(error) is outcome


def test_too_few_replicas_are_said_with_the_partition():
    [error] = produced(p0=Partition(10, isr=(1,), min_isr=2)).complete().values()
    assert str(error) == "t-0 has 1 replicas in sync"


def test_all_partitions_must_be_complete():
    slow = Partition(3)
    operation = produced(p0=Partition(10), p1=slow, p2=None)
    assert not operation.is_satisfied()
    slow.log.high_watermark = 10
    assert operation.is_satisfied()
    outcomes = operation.complete()
    assert [outcomes["t", 0], outcomes["t", 1]] == [None, None]
    assert type(outcomes["t", 2]) is UnknownTopicOrPartitionError


def test_a_timeout_names_the_partitions_that_are_not_committed():
    outcomes = produced(p0=Partition(10), p1=Partition(3)).complete()
    assert outcomes["t", 0] is None
    assert type(outcomes["t", 1]) is CommitTimedOutError
    assert str(outcomes["t", 1]) == "t-1 was not committed up to offset 10 in time"


def test_a_leader_of_a_later_epoch_does_not_commit_what_was_appended_before():
    """The append was truncated while another broker led; now there are other records at its offsets."""
    moved, slow = Partition(9, error=NotLeaderOrFollowerError("elsewhere")), Partition(3)
    operation = produced(p0=moved, p1=slow)
    assert not operation.is_satisfied()
    moved.leads_again(high_watermark=11)
    slow.log.high_watermark = 10
    assert operation.is_satisfied()
    outcomes = operation.complete()
    assert type(outcomes["t", 0]) is NotLeaderOrFollowerError
    assert outcomes["t", 1] is None

"""Which follower a consumer is sent to (KIP-392), as a table."""

from types import SimpleNamespace

import pytest

from replication.in_sync_replicas import InSyncReplicas
from replication.replica_selector import preferred_replica

RACKS = {0: "a", 1: "b", 2: "b", 3: "c"}


@pytest.mark.parametrize(
    ("offset", "rack", "expected"),
    [
        (5, "b", 2),  # which has got further
        (9, "b", 2),
        (10, "b", None),  # nobody there has it
        (4, "b", 1),  # 2 has it no more
        (2, "b", None),
        (5, "a", None),  # the leader's own rack
        (5, "c", None),  # out of sync
        (5, "d", None),
        (5, "", None),
    ],
)
def test_preferred_replica(offset, rack, expected):
    sync = InSyncReplicas(0, [0, 1, 2, 3], [0, 1, 2])
    for replica, start, end in ((1, 3, 7), (2, 5, 9), (3, 0, 9)):
        sync.end_offsets[replica] = end
        sync.progress[replica].log_start_offset = start
    assert preferred_replica(SimpleNamespace(sync=sync), offset, rack, RACKS.get) == expected


def test_of_equal_replicas_the_last_caught_up_is_selected():
    sync = InSyncReplicas(0, [0, 1, 2], [0, 1, 2])
    for replica, caught_up_ms in ((1, 2000), (2, 1000)):
        sync.end_offsets[replica] = 9
        sync.progress[replica].log_start_offset = 0
        sync.progress[replica].last_caught_up_ms = caught_up_ms
    assert preferred_replica(SimpleNamespace(sync=sync), 5, "b", RACKS.get) == 1


def test_a_follower_returns_no_preferred_replica():
    assert preferred_replica(SimpleNamespace(sync=None), 5, "b", RACKS.get) is None

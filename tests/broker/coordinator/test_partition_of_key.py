"""Keys are coordinated where Kafka coordinates them: its log directories say where that is."""

import pytest

from broker.coordinator.coordinator_log import CoordinatorLog

RECORDED = {
    "txn-one": 47,
    "txn-two": 3,
    "txn-three": 25,
    "txn-ongoing": 48,
    "group-classic": 24,
    "group-static": 44,
    "group-left": 7,
    "group-simple": 32,
    "group-deleted": 45,
    "group-txn": 30,
    "polygenelubricants": 0,  # its hash is the lowest number, which has no absolute value
}


class FiftyPartitions(CoordinatorLog):
    """Not connected to anything."""

    partition_count = 50

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("key", RECORDED)
def test_the_partition_of_a_key(key):
    assert FiftyPartitions().partition_for(key) == RECORDED[key]

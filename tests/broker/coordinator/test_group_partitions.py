"""The groups of one partition: ends of transactions, in order, also while the partition is loading."""

from __future__ import annotations

import pytest

from broker.coordinator.classic.group import Group
from broker.coordinator.group_partitions import GroupsPartition
from broker.coordinator.offsets import CommittedOffset

KEY = ("t", 0)
PRODUCER = 7


def offset(number: int, log_offset: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0, log_offset=log_offset)


@pytest.fixture
def group():
    return Group("g", 0)


@pytest.fixture
def loading():
    return GroupsPartition(0, 1)


def known(group: Group) -> int | None:
    found = group.offsets.committed.get(KEY)
    return None if found is None else found.offset


@pytest.mark.parametrize("committed", [True, False])
def test_the_first_of_several_ends_counts_for_the_transaction_that_was_open(loading, group, committed):
    group.offsets.restore({}, {PRODUCER: {KEY: offset(5, 10)}})
    loading.end_transaction(PRODUCER, 11, committed=committed)
    loading.end_transaction(PRODUCER, 12, committed=not committed)  # the next one, without offsets
    loading.finish_loading({"g": group})
    assert known(group) == (5 if committed else None)
    assert not group.offsets.is_unstable(KEY)


def test_an_end_means_the_offsets_before_its_marker(loading, group):
    loading.finish_loading({"g": group})
    loading.open_groups[PRODUCER] = {"g"}
    group.offsets.begin_transactional(PRODUCER, {KEY: offset(9, 20)})
    loading.end_transaction(PRODUCER, 15, committed=True)
    assert group.offsets.is_unstable(KEY)
    loading.end_transaction(PRODUCER, 25, committed=True)
    assert known(group) == 9
    assert not loading.open_groups
    assert not group.offsets.is_unstable(KEY)

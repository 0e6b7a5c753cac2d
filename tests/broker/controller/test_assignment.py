"""Where replicas go: Kafka's spread, and what must hold for every one."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.assignment import assign_replicas


def assign(brokers, partitions, factor, **how):
    return assign_replicas(dict.fromkeys(brokers), partitions, factor, rng=random.Random(0), **how)


def test_kafkas_example():
    """The one in its documentation: five brokers, ten partitions, three replicas, start and distance 0."""
    assert assign(range(5), 10, 3, start=0) == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 0],
        4: [4, 0, 1],
        5: [0, 2, 3],
        6: [1, 3, 4],
        7: [2, 4, 0],
        8: [3, 0, 1],
        9: [4, 1, 2],
    }


def test_one_broker_gets_all_partitions():
    assert assign([7], 3, 1) == {0: [7], 1: [7], 2: [7]}


def test_the_order_in_which_brokers_are_given_does_not_matter():
    assert assign([3, 1, 2], 6, 2, start=0) == assign([1, 2, 3], 6, 2, start=0)


def test_added_partitions_continue_the_rotation_of_the_first_ones():
    """Asked for together or one after the other, leaders go round."""
    leaders = [replicas[0] for replicas in assign(range(4), 6, 1, start=2).values()]
    added = [replicas[0] for replicas in assign(range(4), 3, 1, start=2, first_partition=3).values()]
    assert added == leaders[3:]


@pytest.mark.parametrize(("factor", "brokers"), [(0, 3), (4, 3), (1, 0), (-1, 3)])
def test_more_replicas_than_brokers_are_refused(factor, brokers):
    with pytest.raises(ValueError, match="replication factor"):
        assign(range(brokers), 1, factor)


@given(
    brokers=st.sets(st.integers(0, 1000), min_size=1, max_size=12),
    partitions=st.integers(1, 60),
    factor=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_every_broker_gets_its_share_and_no_partition_twice(brokers, partitions, factor, seed):
    factor = min(factor, len(brokers))
    assignment = assign_replicas(dict.fromkeys(brokers), partitions, factor, rng=random.Random(seed))
    assert list(assignment) == list(range(partitions))
    for replicas in assignment.values():
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= brokers
    leaders = Counter(replicas[0] for replicas in assignment.values())
    shares = [leaders[broker] for broker in brokers]
    assert max(shares) - min(shares) <= 1
    held = Counter(replica for replicas in assignment.values() for replica in replicas)
    if partitions % (len(brokers) * max(len(brokers) - 1, 1)) == 0:
        assert len({held[broker] for broker in brokers}) == 1


RACKS = {0: "a", 1: "c", 2: "c", 3: "b", 4: "b", 5: "a"}


def test_kafkas_example_with_racks():
    """The one in its documentation: three racks of two brokers, twelve partitions, three replicas."""
    assert assign_replicas(RACKS, 12, 3, rng=random.Random(0), start=0) == {
        0: [0, 3, 1],
        1: [3, 1, 5],
        2: [1, 5, 4],
        3: [5, 4, 2],
        4: [4, 2, 0],
        5: [2, 0, 3],
        6: [0, 4, 2],
        7: [3, 2, 0],
        8: [1, 0, 3],
        9: [5, 3, 1],
        10: [4, 1, 5],
        11: [2, 5, 4],
    }


@given(
    st.dictionaries(st.integers(0, 30), st.sampled_from("abc"), min_size=1, max_size=9),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(0, 1000),
)
def test_every_rack_gets_a_replica_before_one_gets_two(racks, partitions, factor, seed):
    factor = min(factor, len(racks))
    assignment = assign_replicas(racks, partitions, factor, rng=random.Random(seed))
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        assert len({racks[one] for one in replicas}) == min(factor, len(set(racks.values())))


def test_racks_are_used_only_if_every_broker_has_one():
    assert assign_replicas({**RACKS, 5: None}, 12, 3, rng=random.Random(0), start=0) == assign(range(6), 12, 3, start=0)

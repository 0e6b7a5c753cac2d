"""Who reads what in a ZooKeeper consumer's group, by Kafka 0.8's examples and rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.topic_partition import TopicPartition
from client.zookeeper.assignment import ConsumerThread, GroupView, assign_range, assignment_of


def threads(*counts):
    """Consumers c1, c2, … with so many threads each."""
    return [ConsumerThread(f"c{n}", number) for n, count in enumerate(counts, 1) for number in range(count)]


def numbers(assigned):
    """The partitions of each thread, by its id."""
    found = {}
    for partition, thread in assigned.items():
        found.setdefault(str(thread), []).append(partition)
    return found


@pytest.mark.parametrize(
    ("partitions", "of", "expected"),
    [
        (4, (1, 1, 1), {"c1-0": [0, 1], "c2-0": [2], "c3-0": [3]}),
        (4, (2, 2, 2), {"c1-0": [0], "c1-1": [1], "c2-0": [2], "c2-1": [3]}),
        (5, (2, 2), {"c1-0": [0, 1], "c1-1": [2], "c2-0": [3], "c2-1": [4]}),
        (1, (3,), {"c1-0": [0]}),
        (3, (), {}),
        (0, (2, 1), {}),
    ],
)
def test_examples(partitions, of, expected):
    assert numbers(assign_range(range(partitions), threads(*of))) == expected


def test_ids_are_sorted_as_text():
    many = [ConsumerThread("c", number) for number in range(11)]
    assert [str(thread) for thread in assign_range(range(3), many).values()] == ["c-0", "c-1", "c-10"]
    mixed = [ConsumerThread("g_b", 0), ConsumerThread("g_B", 0), ConsumerThread("g_a.x", 0), ConsumerThread("g_a", 0)]
    assert [str(thread) for thread in assign_range([2, 4, 7, 9], mixed).values()] == [
        "g_B-0", "g_a-0", "g_a.x-0", "g_b-0",
    ]  # fmt: skip
    assert list(assign_range([7, 2, 9, 4], mixed)) == [7, 2, 9, 4]


@given(st.sets(st.integers(0, 50)), st.lists(st.integers(1, 4), max_size=8), st.randoms())
def test_all_consumers_compute_the_same_assignment(partitions, counts, random):
    row = threads(*counts)
    assigned = assign_range(partitions, row)
    random.shuffle(row)
    assert assign_range(partitions, row) == assigned
    assert set(assigned) == (partitions if row else set())
    shares = [list(assigned.values()).count(thread) for thread in sorted(row, key=str)]
    assert shares == sorted(shares, reverse=True)
    assert not shares or shares[0] - shares[-1] <= 1


def test_consumers_with_different_topics():
    view = GroupView(
        ((0, "h", 1),),
        {"a": {"x": 1, "y": 2}, "b": {"x": 1}, "c": {"z": 1}},
        {"x": {0: "0", 1: "1", 2: "2"}, "y": {0: "0", 1: "1", 2: "2"}, "z": {0: "0"}},
    )
    shares = {consumer: assignment_of(consumer, view) for consumer in ("a", "b", "c", "stranger")}
    assert {str(partition): str(thread) for partition, thread in shares["a"].items()} == {
        "x-0": "a-0", "x-1": "a-0", "y-0": "a-0", "y-1": "a-0", "y-2": "a-1",
    }  # fmt: skip
    assert list(shares["b"]) == [TopicPartition("x", 2)]
    assert list(shares["c"]) == [TopicPartition("z", 0)]
    assert shares["stranger"] == {}


def test_names_may_sort_differently_than_numbers():
    view = GroupView((), {"a": {"x": 1}, "b": {"x": 1}}, {"x": {2: "1-0", 0: "1-1", 1: "2-0"}})
    mine = assignment_of("a", view)
    assert list(mine) == [TopicPartition("x", 2), TopicPartition("x", 0)]
    assert view.names(mine) == {TopicPartition("x", 2): "1-0", TopicPartition("x", 0): "1-1"}

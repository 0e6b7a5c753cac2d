"""Which offsets are read and how they are divided: pure functions."""

from __future__ import annotations

import random

import pytest

from client.topic_partition import TopicPartition
from spark_connector.range_planner import OffsetRange, count, divided, limited, losses, ranges_of
from spark_connector.topic_offsets import from_json, start_of, to_json

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def spans(ranges):
    return [(one.topic_partition, one.start, one.end) for one in ranges]


def divide(start, end, **limits):
    return spans(divided(ranges_of(start, end), **{"minimum": None, "max_records": None, **limits}))


def test_a_partition_is_one_range_by_default():
    assert divide({A: 3, B: 5, C: 0}, {A: 7, B: 5, C: 2}) == [(A, 3, 7), (C, 0, 2)]


def test_min_partitions_divides_large_ranges_in_proportion():
    assert divide({A: 0, B: 0}, {A: 300, B: 100}, minimum=4) == [(A, 0, 100), (A, 100, 200), (A, 200, 300), (B, 0, 100)]


def test_min_partitions_below_the_number_of_ranges_changes_nothing():
    assert divide({A: 0, B: 0}, {A: 300, B: 1}, minimum=2) == [(A, 0, 300), (B, 0, 1)]


def test_max_records_per_partition_bounds_each_range():
    assert divide({A: 0, B: 0}, {A: 25, B: 10}, max_records=10) == [(A, 0, 8), (A, 8, 16), (A, 16, 25), (B, 0, 10)]


def test_both_limits_hold():
    found = divide({A: 0}, {A: 100}, max_records=50, minimum=4)
    assert found == [(A, 0, 25), (A, 25, 50), (A, 50, 75), (A, 75, 100)]
    assert len(divide({A: 0}, {A: 100}, max_records=10, minimum=4)) == 10


def test_division_covers_every_offset_once_and_keeps_its_limits():
    rng = random.Random(7)
    for _ in range(500):
        start = {TopicPartition("t", at): rng.randrange(100) for at in range(rng.randrange(1, 5))}
        end = {partition: offset + rng.choice((0, 1, 3, 1000)) for partition, offset in start.items()}
        minimum, most = rng.choice((None, 1, 7, 50)), rng.choice((None, 1, 10, 400))
        ranges = divided(ranges_of(start, end), minimum=minimum, max_records=most)
        for partition in start:
            covered = [at for one in ranges if one.topic_partition == partition for at in range(one.start, one.end)]
            assert covered == list(range(start[partition], end[partition]))
        assert all(one.start < one.end for one in ranges)
        if most is not None:
            assert all(one.end - one.start <= most for one in ranges)
        if minimum is not None:
            assert len(ranges) >= min(minimum, count(start, end))


def test_max_offsets_are_split_in_proportion_to_the_available_records():
    assert limited({A: 0, B: 100}, {A: 300, B: 200}, 40) == {A: 30, B: 110}


def test_a_small_partition_gets_at_least_one_offset():
    assert limited({A: 0, B: 0}, {A: 1000, B: 1}, 10) == {A: 9, B: 1}


def test_fewer_records_than_the_limit_are_all_read():
    assert limited({A: 0, B: 0}, {A: 5, B: 5}, 10) == {A: 5, B: 5}


def test_a_partition_without_new_records_keeps_its_offset():
    assert limited({A: 50, B: 0}, {A: 50, B: 100}, 10) == {A: 50, B: 10}


def test_losses_name_partition_and_offsets():
    found = losses({A: 5, B: 7, C: 1}, {B: 3, C: 1})
    assert len(found) == 2
    assert "a-0" in found[0]
    assert "5" in found[0]
    assert all(word in found[1] for word in ("a-1", "3", "7"))


def test_equal_offsets_are_equal_text():
    assert str(to_json({C: 1, B: 2, A: 3})) == str(to_json({A: 3, B: 2, C: 1}))
    assert to_json({TopicPartition("a", 10): 1, TopicPartition("a", 9): 2}) == {"a": {"9": 2, "10": 1}}


def test_the_end_of_the_first_batch_contains_the_start_of_the_stream():
    end = to_json({A: 9}) | {"$start": to_json({A: 4})}
    assert from_json(end) == {A: 9}
    assert start_of(end) == {A: 4}
    assert start_of(to_json({A: 9})) is None


@pytest.mark.parametrize("text", ["a-0 [3, 9)"])
def test_a_range_is_named_by_partition_and_offsets(text):
    assert str(OffsetRange("a", 0, 3, 9)) == text

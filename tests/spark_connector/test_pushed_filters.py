"""Filters that the source takes over: pure, with a cluster that answers from a table."""

from __future__ import annotations

import asyncio
import datetime

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from client.topic_partition import TopicPartition
from spark_connector.pushed_filters import PushedFilters

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
START, END = {A: 5, B: 5, C: 5}, {A: 100, B: 100, C: 100}
UTC = datetime.UTC


class Times:
    """Record n of every partition has the time n seconds after the epoch; there are 50."""

    def __init__(self):
        self.asked = {}

    async def at_or_after(self, times):
        self.asked = times
        return {partition: None if ms > 50_000 else -(-ms // 1000) for partition, ms in times.items()}


def narrowed(*filters):
    """What is left for Spark, and the ranges of what is read."""
    pushed, times = PushedFilters(), Times()
    left = pushed.push(list(filters))
    start, end = asyncio.run(pushed.narrowed(times, START, END))
    return left, {partition: (start[partition], end[partition]) for partition in start}, times.asked


def test_filters_on_partitions_and_topics_are_fully_pushed_down():
    assert narrowed(EqualTo(("topic",), "a")) == ([], {A: (5, 100), B: (5, 100)}, {})
    assert narrowed(In(("partition",), (1, 2)))[1] == {B: (5, 100)}
    assert narrowed(GreaterThan(("partition",), 0))[1] == {B: (5, 100)}
    assert narrowed(LessThanOrEqual(("topic",), "a"), LessThan(("partition",), 1))[1] == {A: (5, 100)}
    assert narrowed(GreaterThanOrEqual(("topic",), "c"))[1] == {}


def test_filters_on_offsets_are_fully_pushed_down():
    assert narrowed(GreaterThan(("offset",), 9), LessThan(("offset",), 20))[:2] == ([], dict.fromkeys(END, (10, 20)))
    assert narrowed(GreaterThanOrEqual(("offset",), 9), LessThanOrEqual(("offset",), 20))[1][A] == (9, 21)
    assert narrowed(EqualTo(("offset",), 7))[1][A] == (7, 8)
    assert narrowed(GreaterThan(("offset",), 0), LessThan(("offset",), 1000))[1][A] == (5, 100)


def test_a_set_of_offsets_narrows_the_range_and_is_evaluated_by_spark():
    one = In(("offset",), (30, 10, None))
    assert narrowed(one)[:2] == ([one], dict.fromkeys(END, (10, 31)))


def test_times_narrow_only_the_beginning_and_are_evaluated_by_spark():
    since = datetime.datetime.fromtimestamp(20.0005, UTC)
    for one in (GreaterThan(("timestamp",), since), GreaterThanOrEqual(("timestamp",), since)):
        assert narrowed(one) == ([one], dict.fromkeys(END, (21, 100)), dict.fromkeys(END, 20_001))
    one = EqualTo(("timestamp",), datetime.datetime.fromtimestamp(20, UTC))
    assert narrowed(one)[:2] == ([one], dict.fromkeys(END, (20, 100)))
    one = LessThan(("timestamp",), since)
    assert narrowed(one) == ([one], dict.fromkeys(END, (5, 100)), {})


def test_a_time_after_all_records_reads_nothing():
    assert narrowed(GreaterThan(("timestamp",), datetime.datetime.fromtimestamp(90, UTC)))[1][A] == (100, 100)


def test_not_null_filters_on_columns_without_nulls_are_pushed_down():
    assert narrowed(IsNotNull(("offset",)), IsNotNull(("timestamp",)))[0] == []


def test_other_filters_are_evaluated_by_spark():
    others = [
        EqualTo(("key",), b"k"),
        EqualTo(("topic",), None),
        Not(EqualTo(("partition",), 1)),
        StringStartsWith(("topic",), "a"),
        IsNull(("key",)),
        IsNotNull(("key",)),
        EqualTo(("headers", "key"), "h"),
    ]
    assert narrowed(*others)[:2] == (others, dict.fromkeys(END, (5, 100)))

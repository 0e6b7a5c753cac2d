"""Batch queries of a real Spark on a real broker: the documented rules of Spark's Kafka source."""

from __future__ import annotations

import asyncio
import datetime
import json

import pytest

from client.producer.producer import Producer
from support.spark_topics import values

NOON_MS = 1_700_000_000_000


def offsets(topic, *numbers):
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


@pytest.fixture(scope="module")
def two(topics):
    """A topic of two partitions: "a0" … "a4" and "b0" … "b4", a second from one to the next."""
    topic = topics.create(2)
    for partition, letter in enumerate("ab"):
        topics.fill(topic, *(f"{letter}{at}" for at in range(5)), partition=partition, first_ms=NOON_MS)
    return topic


def test_columns_are_those_of_sparks_kafka_source(topics, read):
    topic = topics.create()

    async def send():
        async with Producer(bootstrap_servers=topics.broker.bootstrap) as producer:
            headers = [("h", b"1"), ("h", None)]
            await producer.send(topic, b"v", key=b"k", headers=headers, timestamp_ms=NOON_MS)
            await producer.send(topic, None, timestamp_ms=NOON_MS + 1)

    asyncio.run(send())
    first, second = read(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    time = datetime.datetime.fromtimestamp(NOON_MS / 1000, datetime.UTC).replace(tzinfo=None)
    assert (first.key, first.value, first.topic, first.partition) == (b"k", b"v", topic, 0)
    assert (first.offset, first.timestamp, first.timestampType) == (0, time, 0)
    assert [(one.key, one.value) for one in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.key, second.value, second.headers) == (None, None, [])
    assert second.timestamp - first.timestamp == datetime.timedelta(milliseconds=1)


def test_a_topic_with_log_append_time_has_timestamp_type_1(topics, read):
    topic = topics.create(message_timestamp_type="LogAppendTime")
    topics.fill(topic, "a", first_ms=NOON_MS)
    (row,) = read(subscribe=topic).collect()
    assert row.timestampType == 1
    assert row.timestamp.timestamp() > NOON_MS / 1000 + 1000


def test_earliest_to_latest_is_everything(read, two):
    assert values(read(subscribe=two)) == [f"{letter}{at}" for letter in "ab" for at in range(5)]


def test_several_topics_are_read_together(topics, read, two):
    other = topics.create()
    topics.fill(other, "other")
    assert len(values(read(subscribe=f"{two} , {other}"))) == 11


def test_a_pattern_is_for_whole_names(topics, read):
    for name in ("pattern-1", "pattern-12", "a-pattern-1"):
        topics.create(name=name)
        topics.fill(name, name)
    assert values(read(subscribePattern=r"pattern-\d")) == ["pattern-1"]
    assert values(read(subscribePattern=r"pattern-\d+")) == ["pattern-1", "pattern-12"]
    assert values(read(subscribePattern="nothing-.*")) == []


def test_assigned_partitions_alone_are_read(read, two):
    assert values(read(assign=json.dumps({two: [1]}))) == [f"b{at}" for at in range(5)]


def test_offsets_by_partition_with_earliest_and_latest(read, two):
    frame = read(subscribe=two, startingOffsets=offsets(two, 3, -2), endingOffsets=offsets(two, -1, 2))
    assert values(frame) == ["a3", "a4", "b0", "b1"]


def test_offsets_must_name_all_partitions_that_are_read(read, two):
    with pytest.raises(Exception, match=rf"startingOffsets.*must name exactly the partitions.*{two}-0, {two}-1"):
        read(subscribe=two, startingOffsets=offsets(two, 3)).collect()
    with pytest.raises(Exception, match=r"endingOffsets.*must name exactly the partitions"):
        read(subscribe=two, endingOffsets=offsets(two, 3, 3, 3)).collect()


def test_times_for_all_partitions(read, two):
    frame = read(subscribe=two, startingTimestamp=str(NOON_MS + 1001), endingTimestamp=str(NOON_MS + 3000))
    assert values(frame) == ["a2", "b2"]


def test_times_by_partition(read, two):
    begin, end = offsets(two, NOON_MS + 4000, NOON_MS), offsets(two, NOON_MS + 99_000, NOON_MS + 1000)
    frame = read(subscribe=two, startingOffsetsByTimestamp=begin, endingOffsetsByTimestamp=end)
    assert values(frame) == ["a4", "b0"]


def test_a_starting_time_after_the_last_record_is_an_error_or_the_end(read, two):
    late = str(NOON_MS + 99_000)
    with pytest.raises(Exception, match=rf"startingTimestamp.*{two}-0, {two}-1 no record is at or after"):
        read(subscribe=two, startingTimestamp=late).collect()
    assert values(read(subscribe=two, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest")) == []


def test_a_starting_timestamp_precedes_starting_offsets(read, two):
    frame = read(subscribe=two, startingOffsets=offsets(two, 0, 0), startingTimestamp=str(NOON_MS + 4000))
    assert values(frame) == ["a4", "b4"]


def test_an_unknown_topic_is_named(read):
    with pytest.raises(Exception, match="the cluster has no topic nowhere"):
        read(subscribe="nowhere").collect()


def test_an_unknown_partition_is_named(read, two):
    with pytest.raises(Exception, match=f"assign: topic {two} has no partition 7"):
        read(assign=json.dumps({two: [0, 7]})).collect()


def test_an_unknown_option_is_refused_when_the_source_is_loaded(read):
    with pytest.raises(Exception, match=r"no option startingofset: did you mean startingOffsets\?"):
        read(subscribe="t", startingOfset="earliest")


def test_min_partitions_divides_what_is_read(topics, read):
    topic = topics.create(2)
    topics.number(topic, 30)
    topics.number(topic, 10, partition=1)
    frame = read(subscribe=topic, minPartitions="4")
    assert frame.rdd.getNumPartitions() == 4
    assert len(values(frame)) == 40


def test_max_records_per_partition_bounds_what_a_task_reads(read, two):
    frame = read(subscribe=two, maxRecordsPerPartition="2")
    assert sorted(frame.rdd.mapPartitions(lambda rows: [len(list(rows))]).collect()) == [1, 1, 2, 2, 2, 2]


def test_columns_leave_out_what_is_not_needed(read, two):
    frame = read(subscribe=two, columns="partition,value")
    assert frame.columns == ["partition", "value"]
    assert (1, b"b4") in {tuple(row) for row in frame.collect()}


def test_compressed_records_are_read(topics, read):
    topic = topics.create()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topics.fill(topic, codec, compression_type=codec)
    assert values(read(subscribe=topic)) == ["gzip", "lz4", "snappy", "zstd"]


def test_a_query_without_records_has_no_rows(topics, read):
    assert read(subscribe=topics.create()).collect() == []


def test_read_committed_ends_before_an_open_transaction_and_leaves_out_aborted_ones(topics, read):
    topic = topics.create()

    async def write():
        async with Producer(bootstrap_servers=topics.broker.bootstrap, transactional_id=topic) as producer:
            for value, is_kept in ((b"1", True), (b"2", False), (b"3", True)):
                await producer.begin_transaction()
                await producer.send(topic, value)
                await (producer.commit_transaction() if is_kept else producer.abort_transaction())
            await producer.begin_transaction()
            await producer.send(topic, b"open")
            committed = read({"kafka.isolation.level": "read_committed"}, subscribe=topic)
            found = await asyncio.to_thread(values, committed), await asyncio.to_thread(values, read(subscribe=topic))
            await producer.abort_transaction()
            return found

    assert asyncio.run(write()) == (["1", "3"], ["1", "2", "3", "open"])


def test_an_unreachable_cluster_is_reported(spark):
    frame = spark.read.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "t").load()
    with pytest.raises(Exception, match=r"no broker answers at 127\.0\.0\.1:9"):
        frame.collect()


# ---- filters


def planned(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_filters_are_pushed_down(read, two):
    frame = read(subscribe=two).where("partition = 1 and offset >= 1 and offset < 3")
    assert values(frame) == ["b1", "b2"]
    assert frame.rdd.getNumPartitions() == 1
    assert "Filter (" not in planned(frame)


def test_a_filter_on_time_is_evaluated_by_spark_too(topics, read):
    topic = topics.create()
    for second in (0, 5, 1, 6):
        topics.fill(topic, str(second), first_ms=NOON_MS + 1000 * second)
    since = datetime.datetime.fromtimestamp(NOON_MS / 1000 + 5, datetime.UTC).replace(tzinfo=None).isoformat(" ")
    assert values(read(subscribe=topic).where(f"timestamp >= '{since}'")) == ["5", "6"]
    assert values(read(subscribe=topic).where(f"timestamp < '{since}'")) == ["0", "1"]


def test_filters_work_without_push_down(spark, read, two):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        frame = read(subscribe=two).where("partition = 1 and offset < 2")
        assert values(frame) == ["b0", "b1"]
        assert "Filter (" in planned(frame)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_query_may_stop_before_the_end(read, two):
    assert len(read(subscribe=two).limit(3).collect()) == 3

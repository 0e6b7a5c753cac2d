"""A stream's reader on the driver, without Spark: called as Spark does, on a real broker, with a clock of its own."""

from __future__ import annotations

import json
import pickle
import threading

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from client.errors import NoBrokersAvailableError
from client.topic_partition import TopicPartition
from spark_connector.errors import DataLossError
from spark_connector.schema import source_schema
from spark_connector.source_options import source_options
from spark_connector.stream_reader import OttlaStreamReader
from support.broker import BrokerProcess
from support.spark_topics import Topics


class Clock:
    def __init__(self):
        self.ms = 1_000_000.0

    def __call__(self):
        return self.ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream(topics, clock):
    readers = []

    def make(dotted=None, on=topics, **options):
        chosen = {**on.options, "startingOffsets": "earliest", **(dotted or {}), **options}
        parsed = source_options(chosen, streaming=True)
        readers.append(OttlaStreamReader(parsed, source_schema({}), clock))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def spans(ranges):
    return [(one.topic, one.partition, one.start, one.end) for one in ranges]


def test_the_default_limit_is_reported_to_spark(stream):
    assert stream(subscribe="t").getDefaultReadLimit() == ReadAllAvailable()
    assert stream(subscribe="t", maxOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert stream(subscribe="t", minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)


def test_the_initial_offset_stays_the_same(topics, stream):
    topic = topics.create()
    reader = stream(subscribe=topic, startingOffsets="latest")
    assert reader.initialOffset() == {topic: {"0": 0}}
    topics.fill(topic, "a")
    assert reader.initialOffset() == {topic: {"0": 0}}


def test_a_batch_waits_for_its_minimum_but_no_longer_than_the_delay(topics, stream, clock):
    topic = topics.create()
    reader = stream(subscribe=topic, minOffsetsPerTrigger="3", maxTriggerDelay="1m")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)  # the first batch does not wait
    topics.fill(topic, "a", "b")
    clock.ms += 59_000
    assert reader.latestOffset(start, limit) == start
    clock.ms += 1_000
    end = reader.latestOffset(start, limit)
    assert end == {topic: {"0": 2}}
    clock.ms += 1
    topics.fill(topic, "c", "d")
    assert reader.latestOffset(end, limit) == end
    topics.fill(topic, "e")
    assert reader.latestOffset(end, limit) == {topic: {"0": 5}}


def test_minimum_and_maximum_apply_together(topics, stream, clock):
    topic = topics.create()
    reader = stream(subscribe=topic, minOffsetsPerTrigger="2", maxOffsetsPerTrigger="3")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    topics.fill(topic, *"abcd")
    end = reader.latestOffset(start, limit)
    assert end == {topic: {"0": 3}}
    assert reader.latestOffset(end, limit) == end
    # Trigger.Once asks for all.
    assert reader.latestOffset(end, ReadAllAvailable()) == {topic: {"0": 4}}


def test_available_now_stops_at_its_target(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b", "c")
    reader = stream(subscribe=topic, maxOffsetsPerTrigger="2", startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    topics.fill(topic, "later")
    # Latest is the target: what came later is for the next query.
    assert reader.initialOffset() == {topic: {"0": 3}}
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(2))
    assert first[topic] == {"0": 3}
    assert reader.latestOffset(first, ReadMaxRows(2)) == first


def test_a_repeated_plan_is_the_same(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b", "c")
    reader = stream(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}}))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert spans(reader.partitions(start, end)) == [(topic, 0, 1, 3)]
    # After a restart Spark has another beginning; that of the batch counts.
    assert spans(stream(subscribe=topic).partitions({topic: {"0": 3}}, end)) == [(topic, 0, 1, 3)]
    assert reader.partitions(end, end) == []


def test_a_new_partition_that_does_not_begin_at_zero_is_data_loss(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b", "c")
    start, end = {}, {topic: {"0": 3}}
    assert spans(stream(subscribe=topic).partitions(start, end)) == [(topic, 0, 0, 3)]
    topics.cut(topic, 2)
    with pytest.raises(DataLossError, match=f"partition {topic}-0 is new and begins at offset 2, not at 0"):
        stream(subscribe=topic).partitions(start, end)
    with pytest.warns(UserWarning, match="begins at offset 2"):
        assert spans(stream(subscribe=topic, failOnDataLoss="false").partitions(start, end)) == [(topic, 0, 2, 3)]


def test_losses_are_reported_before_a_batch_is_planned(topics, stream):
    topic = topics.create()
    reader = stream(subscribe=topic)
    with pytest.raises(DataLossError, match=f"partition {topic}-0 ends at offset 0, and was read up to 7 before"):
        reader.latestOffset({topic: {"0": 7}}, ReadAllAvailable())
    with pytest.raises(DataLossError, match=f"partition {topic}-5, read up to offset 7, is gone"):
        reader.latestOffset({topic: {"0": 0, "5": 7}}, ReadAllAvailable())


def test_the_ends_of_logs_are_reported(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b", "c")
    reader = stream(subscribe=topic, maxOffsetsPerTrigger="1")
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    assert reader.reportLatestOffset() == {topic: {"0": 3}}


def test_a_reader_that_is_pickled_can_read(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a")
    reader = stream(subscribe=topic)
    start = reader.initialOffset()
    (one,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    other = pickle.loads(pickle.dumps(reader))
    assert [batch["value"].to_pylist() for batch in other.read(pickle.loads(pickle.dumps(one)))] == [[b"a"]]


def test_a_failed_commit_of_progress_is_a_warning(topics, stream):
    reader = stream(subscribe=topics.create(), commitGroupId="warned")
    with pytest.warns(UserWarning, match=r"not committed to group warned.*continues: .*absent-0.*UNKNOWN_TOPIC"):
        reader.commit({"absent": {"0": 1}})
    reader = stream(subscribe=topics.create(), commitGroupId="x" * 40_000)
    with pytest.warns(UserWarning, match=r"continues: .*at most 32767"):
        reader.commit({"absent": {"0": 1}})


def test_progress_of_earlier_batches_is_committed_when_the_next_is_planned(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b")
    reader = stream(subscribe=topic, commitGroupId=f"group-{topic}")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())

    def committed():
        found = topics.admin(lambda admin: admin.list_group_offsets(f"group-{topic}"))
        return {partition: one.offset for partition, one in found.items()}

    assert committed() == {}  # nothing is done yet
    reader.latestOffset(end, ReadAllAvailable())
    assert committed() == {TopicPartition(topic, 0): 2}


def test_the_reader_waits_for_a_broker_that_restarts(tmp_path, stream):
    with BrokerProcess(tmp_path / "log") as broker:
        own = Topics(broker)
        topic = own.create()
        reader = stream(subscribe=topic, on=own)
        start = reader.initialOffset()
        own.fill(topic, "a")
        broker.kill()
        back = threading.Thread(target=broker.start)
        back.start()
        try:
            assert reader.latestOffset(start, ReadAllAvailable())[topic] == {"0": 1}
        finally:
            back.join()


def test_an_unreachable_cluster_is_reported(tmp_path, stream):
    with BrokerProcess(tmp_path / "log") as broker:
        own = Topics(broker)
        topic = own.create()
        reader = stream({"kafka.default.api.timeout.ms": "400"}, subscribe=topic, on=own)
        start = reader.initialOffset()
        broker.kill()
        with pytest.raises(
            NoBrokersAvailableError, match=f"the cluster cannot be reached, tried for 400 ms.*{broker.bootstrap}"
        ):
            reader.latestOffset(start, ReadAllAvailable())

"""Streams of a real Spark on a real broker: the documented rules of Spark's Kafka source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.counts import full_only
from support.spark_topics import Stream, flat

NOON_MS = 1_700_000_000_000


@pytest.fixture
def stream(spark, topics, tmp_path):
    """A stream that is run by hand. Names of options as keywords; those with a dot in a mapping."""

    def make(dotted=None, checkpoint="checkpoint", **options):
        def load():
            return spark.readStream.format("ottla").options(**topics.options, **(dotted or {}), **options).load()

        return Stream(load, str(tmp_path / checkpoint))

    return make


def ends(tmp_path, batch, name="checkpoint"):
    """The offsets of a batch in the checkpoint."""
    return json.loads((tmp_path / name / "offsets" / str(batch)).read_text().splitlines()[-1])


def test_a_stream_begins_at_latest_and_continues_from_its_checkpoint(topics, stream, tmp_path):
    topic = topics.create(2)
    topics.fill(topic, "before")
    query = stream(subscribe=topic)
    assert flat(query.run()) == []
    assert ends(tmp_path, 0) == {topic: {"0": 1, "1": 0}, "$start": {topic: {"0": 1, "1": 0}}}
    topics.fill(topic, "a")
    topics.fill(topic, "b", partition=1)
    assert query.run() == [["a", "b"]]
    assert ends(tmp_path, 1) == {topic: {"0": 2, "1": 1}}
    assert query.run() == []


def test_a_repeated_first_batch_begins_at_the_same_offsets(topics, stream, tmp_path):
    topic = topics.create()
    topics.fill(topic, "before")
    query = stream(subscribe=topic, startingOffsets="latest")
    query.run()
    # As if Spark had died between planning the first batch and its end, with two records in it.
    topics.fill(topic, "a", "b")
    offsets = tmp_path / "checkpoint" / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    lines[-1] = json.dumps({topic: {"0": 3}, "$start": {topic: {"0": 1}}})
    offsets.write_text("\n".join(lines))
    (offsets.parent / ".0.crc").unlink(missing_ok=True)
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    topics.fill(topic, "c")
    assert flat(stream(subscribe=topic, startingOffsets="latest").run()) == ["a", "b", "c"]


@full_only
def test_a_stream_begins_at_given_offsets_or_times(topics, stream):
    topic = topics.create(2)
    topics.fill(topic, "a", "b", "c", first_ms=NOON_MS)
    topics.fill(topic, "d", "e", partition=1, first_ms=NOON_MS)
    offsets = json.dumps({topic: {"0": 1, "1": -1}})
    assert flat(stream(subscribe=topic, startingOffsets=offsets).run()) == ["b", "c"]
    late = stream(checkpoint="late", subscribe=topic, startingTimestamp=str(NOON_MS + 1000))
    assert flat(late.run()) == ["b", "c", "e"]


def test_the_maximum_of_a_trigger_is_split_over_partitions(topics, stream):
    topic = topics.create(2)
    topics.number(topic, 30)
    topics.number(topic, 10, partition=1)
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="16")
    assert [len(batch) for batch in query.run()] == [16, 16, 8]
    first = query.progress[0].sources[0]
    assert json.loads(first.endOffset)[topic] == {"0": 12, "1": 4}
    assert json.loads(first.latestOffset)[topic] == {"0": 30, "1": 10}


@full_only
def test_available_now_ignores_the_minimum_of_a_trigger_and_later_records(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b", "c", "d")
    query = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="3", maxOffsetsPerTrigger="3")
    take = query._take

    def take_and_write(frame, number):
        take(frame, number)
        topics.fill(topic, "later")

    query._take = take_and_write
    assert query.run() == [["a", "b", "c"], ["d"]]


@full_only
def test_new_partitions_and_topics_are_read_from_their_beginning(topics, stream):
    topic = topics.create(name="grows-1")
    topics.fill(topic, "a")
    query = stream(subscribePattern="grows-.*")
    query.run()
    topics.admin(lambda admin: admin.create_partitions(topic, 2))
    topics.fill(topic, "b", "c", partition=1)
    topics.create(name="grows-2")
    topics.fill("grows-2", "d")
    assert query.run() == [["b", "c", "d"]]


def test_a_deleted_topic_is_data_loss(topics, stream):
    kept, gone = topics.create(name="lossy-1"), topics.create(name="lossy-2")
    query = stream(subscribePattern="lossy-.*", startingOffsets="earliest")
    topics.fill(gone, "a", "b")
    query.run()
    topics.delete(gone)
    topics.fill(kept, "c")
    with pytest.raises(Exception, match=r"partition lossy-2-0, read up to offset 2, is gone.*failOnDataLoss"):
        query.run()
    assert stream(subscribePattern="lossy-.*", failOnDataLoss="false").run() == [["c"]]


@full_only
def test_a_recreated_topic_is_data_loss(topics, stream):
    topic = topics.create(name="anew")
    query = stream(subscribe=topic, startingOffsets="earliest")
    topics.fill(topic, "a", "b")
    query.run()
    topics.delete(topic)
    topics.create(name=topic)
    topics.fill(topic, "c")
    with pytest.raises(Exception, match="partition anew-0 ends at offset 1, and was read up to 2 before"):
        query.run()


@full_only
def test_records_deleted_before_they_were_read_are_data_loss(topics, stream, tmp_path):
    topic = topics.create()
    query = stream(subscribe=topic, startingOffsets="earliest")
    topics.fill(topic, "a")
    query.run()
    topics.fill(topic, "b", "c", "d")
    topics.cut(topic, 3)
    with pytest.raises(Exception, match=rf"{topic}-0: offsets from 1 of .*\[1, 4\).*the log holds offsets 3 to 4 now"):
        query.run()
    # The same batch again, as it is in the checkpoint.
    assert stream(subscribe=topic, failOnDataLoss="false").run() == [["d"]]


@full_only
def test_a_stream_with_a_trigger_waits_for_its_minimum(spark, topics, tmp_path):
    topic = topics.create()
    topics.fill(topic, "a", "b")
    frame = spark.readStream.format("ottla").options(**topics.options, subscribe=topic, minOffsetsPerTrigger="3")
    seen = []

    def take(batch, _):
        seen.append(sorted(row.value.decode() for row in batch.collect()))

    frame = frame.option("startingOffsets", "earliest").load()
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()  # the first batch of a query does not wait
        topics.fill(topic, "c", "d")
        topics.fill(topic, "e")
        query.processAllAvailable()
    finally:
        query.stop()
    assert seen == [["a", "b"], ["c", "d", "e"]]


def test_ending_offsets_are_refused(topics, stream):
    with pytest.raises(Exception, match=r"endingOffsets.*a stream has no end"):
        stream(subscribe=topics.create(), endingOffsets="latest").run()


@full_only
def test_min_partitions_and_max_records_divide_a_batch(topics, stream):
    topic = topics.create()
    topics.number(topic, 100)
    parts = []
    query = stream(subscribe=topic, startingOffsets="earliest", minPartitions="4", maxRecordsPerPartition="50")
    query._take = lambda frame, _: parts.append(frame.rdd.getNumPartitions())
    query.run()
    assert parts == [4]


def test_progress_is_committed_to_a_group(topics, stream):
    topic = topics.create()
    topics.fill(topic, "a", "b")
    query = stream(subscribe=topic, startingOffsets="earliest", commitGroupId="spark-lag")
    query.run()

    def committed():
        found = topics.admin(lambda admin: admin.list_group_offsets("spark-lag"))
        return {str(partition): one.offset for partition, one in found.items()}

    assert committed() == {f"{topic}-0": 2}
    topics.fill(topic, "c")
    query.run()
    assert committed() == {f"{topic}-0": 3}


@full_only
def test_checkpoints_are_human_readable_files(topics, stream, tmp_path):
    topic = topics.create()
    stream(subscribe=topic, startingOffsets="earliest").run()
    assert (
        Path(tmp_path / "checkpoint" / "offsets" / "0")
        .read_text()
        .endswith(json.dumps({topic: {"0": 0}, "$start": {topic: {"0": 0}}}))
    )

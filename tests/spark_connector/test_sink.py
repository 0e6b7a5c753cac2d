"""The sink, at least once: columns, options, modes, errors, and a broker that is started again."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from pyspark.errors import PySparkException

from support.broker import broker_process
from support.counts import full_only
from support.deadlines import DEADLINE_S
from support.topic_contents import topic_contents

HEADERS = "array<struct<key:string,value:binary>>"


@pytest.fixture
def topic(request):
    """A name of its own for each test."""
    return request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")[:80]


def save(frame, broker, **options):
    """Write a batch job."""
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save()


def refusal(frame, broker, **options):
    """Why a job is refused."""
    with pytest.raises(PySparkException) as caught:
        save(frame, broker, **options)
    return str(caught.value)


def test_rows_become_records_column_by_column(spark, broker, topic):
    rows = [
        ("a", b"one", topic, 0, [("name", b"x"), ("empty", None), ("name", b"y")]),
        (None, None, topic, 1, None),
        ("ключ", b"\x00\xff", topic, 1, []),
    ]
    schema = f"key string, value binary, topic string, partition int, headers {HEADERS}, other double"
    save(spark.createDataFrame([(*row, 1.5) for row in rows], schema), broker)
    assert sorted(topic_contents(broker.bootstrap, topic), key=str) == sorted(
        [
            (0, b"a", b"one", (("name", b"x"), ("empty", None), ("name", b"y"))),
            (1, None, None, ()),
            (1, "ключ".encode(), b"\x00\xff", ()),
        ],
        key=str,
    )


def test_the_value_alone_is_enough_and_may_be_text(spark, broker, topic):
    save(spark.createDataFrame([("ä",), (None,)], "value string"), broker, topic=topic)
    found = topic_contents(broker.bootstrap, topic)
    assert sorted((one.key, one.value) for one in found if one.value) == [(None, "ä".encode())]
    assert len(found) == 2


def test_the_option_topic_precedes_the_column(spark, broker, topic):
    save(spark.createDataFrame([("v", "elsewhere"), ("w", None)], "value string, topic string"), broker, topic=topic)
    assert sorted(one.value for one in topic_contents(broker.bootstrap, topic)) == [b"v", b"w"]


def test_keys_use_the_partitions_of_the_java_client(spark, broker, topic):
    from client.producer.partitioner import murmur2

    save(spark.range(50).selectExpr("cast(id as string) key", "'v' value"), broker, topic=topic)
    for one in topic_contents(broker.bootstrap, topic):
        assert one.partition == (murmur2(one.key) & 0x7FFFFFFF) % 2


def test_many_rows_of_several_tasks_are_written_once(spark, broker, topic):
    frame = spark.range(0, 60_000, 1, 4).selectExpr("cast(id as string) key", "repeat('x', 20) value")
    save(frame, broker, topic=topic, kafka__buffer__memory="200000", kafka__compression__type="lz4")
    found = Counter(int(one.key) for one in topic_contents(broker.bootstrap, topic))
    assert found == Counter(range(60_000))


def test_a_refused_job_reports_the_reason_before_a_row_is_written(spark, broker, topic):
    """What is refused besides is in test_sink_options.py."""
    frame = spark.createDataFrame([("v",)], "value string")
    assert "the sink has no such option; did you mean topic?" in refusal(frame, broker, topics=topic)
    frame = frame.selectExpr("1 as value")
    assert "column value has the type int: it must be string or binary" in refusal(frame, broker, topic=topic)


def test_a_topic_is_needed_in_every_row(spark, broker, topic):
    frame = spark.createDataFrame([("v", topic), ("w", None)], "value string, topic string")
    assert "no topic to write to: set the option topic" in refusal(frame.select("value"), broker)
    assert "null in the column topic: set the option topic" in refusal(frame, broker)


def test_a_header_has_a_key(spark, broker):
    frame = spark.createDataFrame([("v", [(None, b"x")])], f"value string, headers {HEADERS}")
    assert "null in the column headers: a header must have a key" in refusal(frame, broker, topic="t")


def test_option_names_are_case_insensitive(spark, broker, topic):
    frame = spark.createDataFrame([("v",)], "value string")
    save(frame, broker, TOPIC=topic, deliveryguarantee="At-Least-Once", INCLUDEHEADERS="true")
    assert len(topic_contents(broker.bootstrap, topic)) == 1


@pytest.mark.parametrize("mode", ["overwrite", "error"])
def test_records_can_only_be_appended(spark, broker, mode):
    frame = spark.createDataFrame([("v",)], "value string")
    writer = frame.write.format("ottla").mode(mode).option("kafka.bootstrap.servers", broker.bootstrap)
    message = "records can only be appended" if mode == "overwrite" else "cannot be written in the"
    with pytest.raises(PySparkException, match=message):
        writer.option("topic", "t").save()


def test_each_row_goes_to_its_own_topic_and_partition(spark, broker, topic):
    names = [f"{topic}-{number}" for number in range(3)]
    rows = [(f"{number}", names[number % 3], None if number % 4 == 0 else number % 2) for number in range(120)]
    save(spark.createDataFrame(rows, "value string, topic string, partition int"), broker)
    for name in names:
        found = {int(one.value): one.partition for one in topic_contents(broker.bootstrap, name)}
        assert found.keys() == {number for number in range(120) if names[number % 3] == name}
        assert all(place == number % 2 for number, place in found.items() if number % 4)


def test_a_negative_partition_is_refused(spark, broker, topic):
    frame = spark.createDataFrame([("v", -1)], "value string, partition int")
    assert "-1 in the column partition: a partition must not be negative" in refusal(frame, broker, topic=topic)


def test_a_failed_delivery_fails_the_task_and_names_the_partition(spark, broker, topic):
    frame = spark.createDataFrame([("v", 0), ("w", 7)], "value string, partition int")
    message = refusal(frame, broker, topic=topic, kafka__max__block__ms="2000")
    assert f"a row for {topic}-7 was not written" in message
    assert "no partition 7" in message


def test_a_record_that_is_too_large_fails_the_task(spark, broker, topic):
    frame = spark.createDataFrame([("v" * 2000,)], "value string")
    message = refusal(frame, broker, topic=topic, kafka__max__request__size="1000")
    assert f"a row for {topic} was not written" in message
    assert "max_request_size is 1000" in message


def test_an_unreachable_cluster_is_reported_by_its_address(spark):
    frame = spark.createDataFrame([("v",)], "value string")
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", "127.0.0.1:9")
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:9"):
        writer.options(**{"topic": "t", "kafka.max.block.ms": "300"}).save()


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_stream_is_written_batch_by_batch(spark, broker, topic, tmp_path, mode):
    source = tmp_path / "in"
    source.mkdir()
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
    frame = lines if mode == "append" else lines.groupBy("value").count().selectExpr("concat(value, count) value")
    writer = (
        frame.writeStream.format("ottla")
        .outputMode(mode)
        .queryName(topic)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    for name in ("1", "2"):
        (source / name).write_text("a\n")
        query = writer.start()
        assert query.awaitTermination(3 * DEADLINE_S)
    # In output mode complete the whole result is appended each time, as Spark's Kafka sink does.
    expected = [b"a", b"a"] if mode == "append" else [b"a1", b"a2"]
    assert sorted(one.value for one in topic_contents(broker.bootstrap, topic)) == expected


@full_only
def test_rows_survive_a_killed_broker_that_restarts(spark, tmp_path):
    written = threading.Event()
    kills = []
    log = tmp_path / "log" / "t-0" / "00000000000000000000.log"

    def kill_once(broker):
        while not written.is_set() and not (log.exists() and log.stat().st_size > 2_000_000):
            written.wait(0.005)
        if not written.is_set():
            kills.append(broker.kill())
            broker.start()

    with broker_process(tmp_path / "log") as broker:
        thread = threading.Thread(target=kill_once, args=(broker,))
        thread.start()
        frame = spark.range(0, 200_000, 1, 2).selectExpr("cast(id as string) key", "repeat('x', 50) value")
        try:
            save(frame, broker, topic="t", kafka__buffer__memory="1000000")
        finally:
            written.set()
            thread.join()
        assert kills, "the job was done before the broker was killed"
        assert {int(one.key) for one in topic_contents(broker.bootstrap, "t")} == set(range(200_000))

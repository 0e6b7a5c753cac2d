"""The sink, exactly once, in a real Spark: tasks that fail, batches that are distributed otherwise when run again."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.functions import udf

from support.counts import full_only
from support.deadlines import DEADLINE_S
from support.topic_contents import topic_contents


@pytest.fixture
def topic(request):
    """A name of its own for each test."""
    return request.node.name.replace("[", "-").replace("]", "")[:80]


def options(broker, topic, **others):
    return {
        "kafka.bootstrap.servers": broker.bootstrap,
        "topic": topic,
        "deliveryGuarantee": "exactly-once",
        "transactionalIdPrefix": f"prefix-{topic}",
        **others,
    }


def values(broker, topic, *, committed=True):
    return Counter(one.value.decode() for one in topic_contents(broker.bootstrap, topic, committed=committed))


def by_partition(records):
    """The values of each partition, in the order of its log. Readers see the partitions in any order."""
    found = defaultdict(list)
    for one in records:
        found[one.partition].append(one.value)
    return found


def fail_unless(flag, on):
    """A function of a text that raises for one of them until the file `flag` is there; it makes the file."""

    def check(text):
        if text == on and not flag.exists():
            flag.touch()
            raise RuntimeError("this task fails once")
        return text

    return udf(check, useArrow=False)


def save(frame, broker, topic):
    frame.write.format("ottla").mode("append").options(**options(broker, topic)).save()


@full_only
def test_a_batch_job_is_visible_as_a_whole(spark, broker, topic):
    save(spark.range(0, 5000, 1, 4).selectExpr("cast(id as string) value"), broker, topic)
    assert values(broker, topic) == Counter(map(str, range(5000)))


@full_only
def test_a_failed_batch_job_leaves_nothing_visible(spark, broker, topic, tmp_path):
    texts = spark.range(0, 5000, 1, 4).selectExpr("cast(id as string) value")
    frame = texts.select(fail_unless(tmp_path / "failed", "4900")("value").alias("value"))
    with pytest.raises(PySparkException, match="this task fails once"):
        save(frame, broker, topic)
    save(spark.createDataFrame([("after",)], "value string"), broker, topic)
    assert values(broker, topic) == Counter(["after"])  # and nothing open holds it back
    assert values(broker, topic, committed=False)["0"] == 1  # the others were written
    save(frame, broker, topic)
    assert values(broker, topic) == Counter([*map(str, range(5000)), "after"])


class Stream:
    """A stream from text files to a topic, its rows distributed at random in every run of a batch."""

    def __init__(self, spark, broker, topic, folder):
        self._spark = spark
        self._broker = broker
        self._topic = topic
        self._source = folder / "in"
        self._source.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._files = 0

    def add(self, lines):
        """A file, and so a batch."""
        self._files += 1
        (self._source / f"{self._files:03}").write_text("".join(f"{line}\n" for line in lines))

    def run(self, transform=lambda frame: frame):
        """Write what is there, a batch for each file."""
        frame = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self._source))
        # rand() gives every run of a batch a seed of its own, as it is planned anew
        scattered = transform(frame.selectExpr("value", "rand() r").repartitionByRange(3, "r").select("value"))
        query = (
            scattered.writeStream.format("ottla")
            .options(**options(self._broker, self._topic))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(3 * DEADLINE_S)
        assert not query.isActive


@pytest.fixture
def stream(spark, broker, topic, tmp_path):
    return Stream(spark, broker, topic, tmp_path)


@full_only
def test_a_stream_is_written_once(stream, broker, topic):
    for batch in range(3):
        stream.add(f"{batch}-{number}" for number in range(100))
    stream.run()
    assert values(broker, topic) == Counter(f"{batch}-{number}" for batch in range(3) for number in range(100))


def test_a_repeated_batch_with_another_distribution_is_written_once(stream, broker, topic):
    stream.add(f"0-{number}" for number in range(200))
    stream.run()
    once = by_partition(topic_contents(broker.bootstrap, topic))
    # As if the driver had died before it noted that the batch is done.
    shutil.rmtree(stream.checkpoint / "commits")
    stream.add(f"1-{number}" for number in range(50))
    stream.run()
    expected = Counter([f"0-{number}" for number in range(200)] + [f"1-{number}" for number in range(50)])
    assert values(broker, topic) == expected
    # It was written again, by other tasks: the order in the log is another one; and it was aborted.
    everything = [one for one in topic_contents(broker.bootstrap, topic, committed=False) if one.value[:2] == b"0-"]
    assert len(everything) == 400
    assert by_partition(everything) != {number: 2 * values for number, values in once.items()}


@full_only
def test_a_batch_with_a_failed_task_is_repeated_and_written_once(stream, broker, topic, tmp_path):
    stream.add(f"0-{number}" for number in range(100))
    stream.add(f"1-{number}" for number in range(100))
    failing = fail_unless(tmp_path / "failed", "1-50")

    def transform(frame):
        return frame.select(failing("value").alias("value"))

    with pytest.raises(StreamingQueryException, match="this task fails once"):
        stream.run(transform)
    assert values(broker, topic) == Counter(f"0-{number}" for number in range(100))
    stream.run(transform)
    assert values(broker, topic) == Counter(f"{batch}-{number}" for batch in range(2) for number in range(100))


@full_only
def test_a_new_checkpoint_writes_from_the_beginning(stream, broker, topic):
    stream.add(["a"])
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.run()
    assert values(broker, topic) == Counter({"a": 2})

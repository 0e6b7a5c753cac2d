"""A directory of Apache Kafka's under our broker: adopted, led, read, appended to, and left as Kafka would leave it."""

import asyncio
import random
import shutil

import pytest

from broker.cluster.registry_access import REGISTRY_FILE
from broker.errors import BrokerStartError
from broker.log_adoption import adopt_logs
from client.consumer.reader import Reader
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.uuid import uuid_to_string
from storage.errors import LogDirLockedError
from storage.verification.report import Severity
from storage.verification.verification import verify_directory
from support.broker import running_broker
from support.deadlines import DEADLINE_S
from support.log_dirs import EXPECTED, LOG_DIRS, RECORDED_NOW_MS, copy_log_directory, expected, matches
from support.polling import until
from support.reference import REFERENCE

VISIBLE = [name for name in EXPECTED if "." not in name and not name.startswith("__")]


@pytest.fixture
def data(tmp_path):
    """A copy of the recorded log directory."""
    return copy_log_directory("broker-0", tmp_path / "data")


async def adopt(*directories):
    return await adopt_logs(directories, lambda: RECORDED_NOW_MS, random.Random(0))


def broker_on(data):
    """With the cleaner off: it would compact what Kafka had not compacted yet."""
    return running_broker(data, broker_id="0", log_cleaner_enable="false")


async def led(broker):
    """Wait until every partition has its leader."""

    def all_led():
        partitions = [each for topic in broker.metadata.snapshot.topics.values() for each in topic.partitions.values()]
        return len(partitions) == 123 and all(each.leader == 0 for each in partitions)

    await until(all_led, "all partitions are led")


def layout():
    rows = (REFERENCE / "log-dirs" / "layout-stopped.tsv").read_text().splitlines()[1:]
    return {path: int(size) for size, path in (row.split("\t") for row in rows)}


def entries(path):
    lines = path.read_text().splitlines()
    assert lines[:2] == ["0", str(len(lines) - 2)]
    return set(lines[2:])


async def test_the_directory_is_left_as_kafka_leaves_it(data):
    """Adopted, served and stopped: all 123 partitions, every file with its size, and the checkpoints' entries."""
    adopted = await adopt(data)
    assert {each.topic.name: each.empty for each in adopted if each.empty} == {
        "__consumer_offsets": 44,
        "__transaction_state": 46,
    }
    async with broker_on(data) as broker:
        await led(broker)
    found = {
        str(path.relative_to(data)): path.stat().st_size
        for path in data.rglob("*")
        if path.is_file() and not path.name.startswith(REGISTRY_FILE)
    }
    # Snapshots below the log's start go when a log is opened, in Kafka as here; the deleted topic is not in the copy.
    gone = {f"start-offset-0/{offset:020d}.snapshot" for offset in (16, 32, 48)}
    assert found == {path: size for path, size in layout().items() if path not in gone and "-delete/" not in path}
    for name in ("recovery-point", "replication", "log-start"):
        file = f"{name}-offset-checkpoint"
        assert entries(data / file) == entries(LOG_DIRS / "broker-0" / file)
    assert (data / "meta.properties").read_bytes() == (LOG_DIRS / "broker-0" / "meta.properties").read_bytes()
    assert errors(data) == []


async def test_all_records_are_read_and_more_are_appended(data):
    """Every record is read by a client; then there is one more, behind the bytes of Kafka."""
    await adopt(data)
    async with broker_on(data) as broker:
        await led(broker)
        async with Reader(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_uncommitted") as reader:
            await compare(reader, {name: wanted(name) for name in VISIBLE})
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            assert (await producer.send("grp", b"one more", partition=1)).offset == 12
    log = data / "grp-1" / f"{0:020d}.log"
    assert log.read_bytes().startswith((LOG_DIRS / "broker-0" / "grp-1" / log.name).read_bytes())
    assert errors(data) == []


def wanted(name):
    start = 61 if name == "start-offset-0" else 0
    return [
        record
        for segment in expected(name)["segments"]
        for batch in segment["batches"]
        for record in batch["records"]
        if not batch["isControl"] and record["offset"] >= start
    ]


async def compare(reader, records):
    """Read partitions to their ends, and compare what comes with `records`, by the partition's name."""
    partitions = {TopicPartition(topic, int(number)): f"{topic}-{number}" for topic, _, number in map(split, records)}
    reader.assign(dict.fromkeys(partitions, "beginning"))
    found = {name: [] for name in records}
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(sum(map(len, records.values()))):
            record = await anext(reader)
            found[partitions[TopicPartition(record.topic, record.partition)]].append(record)
    for name, expected_records in records.items():
        for record, one in zip(found[name], expected_records, strict=True):
            assert (record.offset, record.timestamp) == (one["offset"], one["timestamp"])
            assert matches(record.key, one["key"])
            assert matches(record.value, one["value"])


def split(name):
    return name.rpartition("-")


async def test_leader_epochs_never_decrease(tmp_path):
    data = copy_log_directory("epochs/broker-1", tmp_path / "data")
    (topic,) = await adopt(data)
    assert topic.topic.partitions == {0: 5}
    async with running_broker(data, broker_id="1") as broker:
        await until(lambda: "epochs" in broker.metadata.snapshot.topics, "the topic is led")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            assert (await producer.send("epochs", b"x", partition=0)).offset == 45
    assert errors(data) == []
    epochs = (data / "epochs-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    assert epochs[-1] == "5 45"


def errors(data):
    return [problem for problem in verify_directory(data) if problem.severity is Severity.ERROR]


async def test_a_second_time_changes_nothing(data):
    first = await adopt(data)
    assert all(each.new for each in first)
    assert [each._replace(new=True) for each in await adopt(data)] == first
    assert not any(each.new for each in await adopt(data))


async def test_adopted_topics_get_settings_that_keep_their_data(data):
    topics = {each.topic.name: each.topic for each in await adopt(data)}
    assert topics["compacted"].settings == {"cleanup.policy": "compact"}
    assert topics["__consumer_offsets"].settings == {"cleanup.policy": "compact"}
    assert topics["types"].settings == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert uuid_to_string(topics["grp"].topic_id) == expected("grp-0")["topicId"]


async def test_two_directories(data, tmp_path):
    """A topic's partitions may lie in several; the first directory holds the registry."""
    other = copy_log_directory("broker-0", tmp_path / "other", "grp-0", "grp-1")
    for name in ("grp-0", "grp-1"):
        shutil.rmtree(data / name)
    topics = {each.topic.name: each for each in await adopt(data, other)}
    assert sorted(topics["grp"].topic.partitions) == [0, 1, 2, 3]
    assert topics["grp"].empty == 0
    assert not (other / REGISTRY_FILE).exists()


@pytest.mark.parametrize(
    ("spoil", "clue"),
    [
        (lambda data: (data / "meta.properties").unlink(), "its broker is unknown"),
        (
            lambda data: shutil.copyfile(
                data / "types-0" / "partition.metadata", data / "grp-2" / "partition.metadata"
            ),
            "another topic id",
        ),
    ],
)
async def test_invalid_directories_are_refused(spoil, clue, data):
    spoil(data)
    with pytest.raises(BrokerStartError, match=clue):
        await adopt(data)
    assert not (data / REGISTRY_FILE).exists()


async def test_contradicting_directories(data, tmp_path):
    other = copy_log_directory("epochs/broker-1", tmp_path / "other")
    with pytest.raises(BrokerStartError, match="different brokers: 0, 1"):
        await adopt(data, other)
    twice = copy_log_directory("broker-0", tmp_path / "twice", "grp-0")
    with pytest.raises(BrokerStartError, match="grp-0 is in two log directories"):
        await adopt(data, twice)


async def test_another_topic_of_the_same_name_is_refused(data):
    await adopt(data)
    for path in data.glob("grp-*"):
        shutil.copyfile(data / "types-0" / "partition.metadata", path / "partition.metadata")
    with pytest.raises(BrokerStartError, match="the registry has a topic grp with another topic id"):
        await adopt(data)


async def test_adoption_is_refused_while_a_broker_runs(data):
    await adopt(data)
    async with broker_on(data):
        with pytest.raises(LogDirLockedError):
            await adopt(data)

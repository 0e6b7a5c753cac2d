"""Ranges as an executor reads them, without Spark: whole or not at all, whatever happens to the broker meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings

import pytest

from client.errors import NoBrokersAvailableError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from spark_connector import event_loop, worker_readers
from spark_connector.errors import DataLossError, NoProgressError
from spark_connector.range_planner import OffsetRange
from spark_connector.range_reader import RangeReader
from spark_connector.record_batches import TARGET_BYTES, RecordBatches
from spark_connector.schema import source_schema
from spark_connector.source_options import source_options
from support.broker import ROOT, BrokerProcess
from support.cluster import broker_cluster
from support.deadlines import DEADLINE_S
from support.polling import until
from support.spark_topics import Topics


def options_of(topics, dotted=None, **options):
    return source_options({**topics.options, "subscribe": "t", **(dotted or {}), **options}, streaming=False)


def read(topics, topic, start, end, dotted=None, **options):
    """The offsets and values of a range."""
    wanted = OffsetRange(topic, 0, start, end)
    batches = RecordBatches(source_schema({"columns": "offset,value"}), topic, 0, end)
    found = []
    for batch in batches.of(RangeReader(wanted, options_of(topics, dotted, **options)).fetched()):
        found += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return found


def numbers(start, end):
    return [(at, b"%d" % at) for at in range(start, end)]


@pytest.fixture
def own(tmp_path):
    """A broker that may be killed."""
    with BrokerProcess(tmp_path / "log") as broker:
        yield Topics(broker)


def test_a_range_is_read_from_its_start_to_its_end(topics):
    topic = topics.create()
    topics.number(topic, 1000)  # in few batches: a range begins and ends inside of one
    assert read(topics, topic, 0, 1000) == numbers(0, 1000)
    assert read(topics, topic, 3, 517) == numbers(3, 517)
    assert read(topics, topic, 999, 1000) == numbers(999, 1000)


def test_readers_are_reused_between_tasks(topics):
    topic = topics.create()
    topics.number(topic, 10)
    read(topics, topic, 0, 10, {"kafka.client.id": "kept"})
    idle = worker_readers.idle_readers()
    for _ in range(3):
        read(topics, topic, 0, 10, {"kafka.client.id": "kept"})
        assert worker_readers.idle_readers() == idle
    read(topics, topic, 0, 10, {"kafka.client.id": "other"})
    assert worker_readers.idle_readers() == idle + 1


def test_an_interrupted_reader_is_not_reused(topics):
    topic = topics.create()
    topics.number(topic, 10)
    idle = worker_readers.idle_readers()
    options = options_of(topics, {"kafka.client.id": "left"})
    fetched = RangeReader(OffsetRange(topic, 0, 0, 10), options).fetched()
    next(fetched)
    fetched.close()
    assert worker_readers.idle_readers() == idle


def test_nothing_is_fetched_after_the_end_of_a_range(topics):
    topic = topics.create()
    for _ in range(5):
        topics.number(topic, 10)
    options = options_of(topics, {"kafka.max.partition.fetch.bytes": "1"}).client  # a batch an answer
    partition = TopicPartition(topic, 0)

    async def behind():
        reader = await worker_readers.borrow(options)
        reader.assign({partition: 0})
        reader.stop_at({partition: 10})
        found = await reader.fetch_batches()
        more = await reader.fetch_batches(timeout_ms=200)
        await worker_readers.give_back(reader, options, is_sound=True)
        return found.next_offset, more

    assert event_loop.run(behind()) == (10, None)


def test_control_records_and_aborted_transactions_leave_gaps(topics):
    topic = topics.create()

    async def write():
        async with Producer(bootstrap_servers=topics.broker.bootstrap, transactional_id=topic) as producer:
            for value, is_kept in ((b"a", True), (b"b", False)):
                await producer.begin_transaction()
                await producer.send(topic, value)
                await (producer.commit_transaction() if is_kept else producer.abort_transaction())

    asyncio.run(write())
    committed = {"kafka.isolation.level": "read_committed"}
    assert read(topics, topic, 0, 4, committed) == [(0, b"a")]
    assert read(topics, topic, 2, 4, committed) == []
    assert read(topics, topic, 1, 4) == [(2, b"b")]


def test_a_log_that_begins_inside_of_a_range_is_data_loss(topics):
    topic = topics.create()
    topics.fill(topic, *map(str, range(6)))
    topics.cut(topic, 4)
    with pytest.raises(DataLossError, match=rf"{topic}-0: offsets from 1 of .*\[1, 6\).*offsets 4 to 6 now"):
        read(topics, topic, 1, 6)
    with pytest.warns(UserWarning, match="4 to 6"):
        assert read(topics, topic, 1, 6, failOnDataLoss="false") == numbers(4, 6)
    with pytest.warns(UserWarning, match="4 to 6"):
        assert read(topics, topic, 1, 3, failOnDataLoss="false") == []


def test_a_log_that_ends_inside_of_a_range_is_data_loss(topics):
    topic = topics.create()
    topics.fill(topic, "0", "1")
    patience = {"kafkaConsumer.pollTimeoutMs": "2000"}
    with pytest.raises(DataLossError, match=rf"{topic}-0: offsets from 2 of .*\[0, 9\).*the log ends at offset 2 now"):
        read(topics, topic, 0, 9, patience)
    with pytest.warns(UserWarning, match="ends at offset 2"):
        assert read(topics, topic, 0, 9, patience, failOnDataLoss="false") == numbers(0, 2)
    with pytest.raises(DataLossError, match="the log holds offsets 0 to 2 now"):
        read(topics, topic, 5, 9)


def test_a_deleted_topic_is_data_loss(topics):
    with pytest.raises(DataLossError, match=r"absent-0: offsets from 3 of .*the topic is gone"):
        read(topics, "absent", 3, 9)
    with pytest.warns(UserWarning, match="the topic is gone"):
        assert read(topics, "absent", 3, 9, failOnDataLoss="false") == []


def test_a_topic_deleted_during_the_read_is_data_loss(topics):
    topic = topics.create()
    topics.number(topic, 10)
    read(topics, topic, 0, 10)  # its leader is known
    topics.delete(topic)
    with pytest.raises(DataLossError, match="the topic is gone"):
        read(topics, topic, 0, 10)


def test_the_read_waits_for_a_broker_that_dies(own):
    topic = own.create()
    large = "x" * 500_000
    own.fill(topic, *[large] * 30)
    fetched = RangeReader(OffsetRange(topic, 0, 0, 30), options_of(own)).fetched()
    count = len(list(next(fetched).records()))
    own.broker.kill()
    own.broker.start()
    count += sum(len(list(one.records())) for one in fetched)
    assert count == 30


def test_an_unreachable_cluster_is_reported(own):
    topic = own.create()
    own.fill(topic, *["x" * 500_000] * 30)
    patience = {"kafkaConsumer.pollTimeoutMs": "1500", "kafka.default.api.timeout.ms": "500"}
    fetched = RangeReader(OffsetRange(topic, 0, 0, 30), options_of(own, patience)).fetched()
    next(fetched)
    own.broker.kill()
    with pytest.raises(
        NoProgressError, match=rf"{topic}-0: no records from offset \d+ .*1500 ms.*{own.broker.bootstrap}"
    ):
        list(fetched)
    with pytest.raises(
        NoBrokersAvailableError, match=rf"the cluster cannot be reached, tried for 500 ms.*{own.broker.bootstrap}"
    ):
        read(own, topic, 0, 30, patience)


def test_batches_are_of_about_one_mebibyte(topics):
    topic = topics.create()
    topics.fill(topic, *["y" * 100_000] * 50)  # a batch each
    wanted = OffsetRange(topic, 0, 0, 50)
    small = options_of(topics, {"kafka.max.partition.fetch.bytes": "100000"})
    batches = RecordBatches(source_schema({}), topic, 0, 50)
    sizes = [batch.num_rows for batch in batches.of(RangeReader(wanted, small).fetched())]
    assert sum(sizes) == 50
    assert all(size * 100_000 >= TARGET_BYTES for size in sizes[:-1])
    large = options_of(topics, {"kafka.max.partition.fetch.bytes": "10000000"})
    sizes = [batch.num_rows for batch in batches.of(RangeReader(wanted, large).fetched())]
    assert max(sizes) * 100_000 <= 1.5 * TARGET_BYTES


def test_a_range_without_loss_logs_no_warning(topics):
    topic = topics.create()
    topics.fill(topic, "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(topics, topic, 0, 1, failOnDataLoss="false") == numbers(0, 1)


COMPACTING = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "50"}


def test_records_removed_by_compaction_are_not_data_loss(tmp_path):
    with BrokerProcess(tmp_path / "log", COMPACTING) as broker:
        topics = Topics(broker)
        topic = topics.create(cleanup_policy="compact", segment_bytes="2000", min_cleanable_dirty_ratio="0.01")

        async def write():
            async with Producer(bootstrap_servers=broker.bootstrap) as producer:
                for number in range(300):
                    await producer.send(topic, b"%d" % number, key=b"%d" % (number % 7))

        asyncio.run(write())

        async def is_compacted():
            return await asyncio.to_thread(lambda: len(read(topics, topic, 0, 300)) < 150)

        asyncio.run(until(is_compacted, "older values are gone"))
        found = read(topics, topic, 0, 300)
        assert found[-7:] == numbers(293, 300)
        assert found == [(at, b"%d" % at) for at, _ in found]
        gap = next(at for at in range(300) if at not in dict(found))
        assert read(topics, topic, gap, gap + 1) == []


async def test_the_read_continues_at_a_new_leader(tmp_path):
    async with broker_cluster(tmp_path) as cluster:
        await cluster.create_topic("t", {0: [0, 1, 2]}, {"min.insync.replicas": "2"})
        async with Producer(bootstrap_servers=cluster.bootstrap()) as producer:
            for number in range(30):
                await producer.send("t", b"%d" % number + b"x" * 500_000)
        named = {"kafka.bootstrap.servers": cluster.bootstrap(), "subscribe": "t"}
        fetched = RangeReader(OffsetRange("t", 0, 0, 30), source_options(named, streaming=False)).fetched()
        offsets = [record.offset for record in (await asyncio.to_thread(next, fetched)).records()]
        await cluster.kill((await cluster.state("t"))["leader"])
        for one in await asyncio.to_thread(list, fetched):
            offsets += [record.offset for record in one.records()]
        assert offsets == list(range(30))


@pytest.mark.parametrize("fails", [True, False])
async def test_a_new_leader_without_the_records_that_were_read_is_data_loss(tmp_path, fails):
    async def write(broker_id, numbers):
        async with Producer(bootstrap_servers=cluster.bootstrap(broker_id)) as producer:
            for number in numbers:
                await producer.send("t", b"%d" % number + b"x" * 500_000)

    async with broker_cluster(tmp_path, 2, auto_leader_rebalance_enable="false") as cluster:
        await cluster.create_topic("t", {0: [0, 1]}, {"unclean.leader.election.enable": "true"})
        await write(0, range(1))
        await cluster.stop(1)
        await write(0, range(1, 30))
        named = {"kafka.bootstrap.servers": cluster.bootstrap(), "subscribe": "t", "failOnDataLoss": str(fails).lower()}
        fetched = RangeReader(OffsetRange("t", 0, 0, 30), source_options(named, streaming=False)).fetched()
        values = [record.value[:3] for record in (await asyncio.to_thread(next, fetched)).records()]
        assert len(values) > 1
        await cluster.kill(0)
        await cluster.start(1)
        await cluster.until_led_by(1, "t")
        await write(1, range(101, 130))
        lost = pytest.raises(DataLossError, match="truncated at offset 1") if fails else pytest.warns(match="truncated")
        with lost:
            for one in await asyncio.to_thread(list, fetched):
                values += [record.value[:3] for record in one.records()]
        if not fails:
            assert values[-1] == b"129"
            assert len(values) == 30


READ_ALONE = """
import sys
from spark_connector.range_planner import OffsetRange
from spark_connector.range_reader import RangeReader
from spark_connector.record_batches import RecordBatches
from spark_connector.schema import source_schema
from spark_connector.source_options import source_options

topic, servers = sys.argv[1:]
options = source_options({"kafka.bootstrap.servers": servers, "subscribe": topic}, streaming=False)
batches = RecordBatches(source_schema({}), topic, 0, 10)
print(sum(one.num_rows for one in batches.of(RangeReader(OffsetRange(topic, 0, 0, 10), options).fetched())))
print(sorted(name for name in sys.modules if name in ("aiokafka", "confluent_kafka", "kafka", "kio")))
"""


def test_no_other_kafka_client_is_imported(topics):
    topic = topics.create()
    topics.number(topic, 10)
    command = [sys.executable, "-c", READ_ALONE, topic, topics.broker.bootstrap]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stdout.split("\n")[:2] == ["10", "[]"], done.stderr

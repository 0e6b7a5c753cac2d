"""Compaction in a live broker: a process of its own compacts what clients write, and clients read what is left."""

from __future__ import annotations

import asyncio
import logging
import time

import confluent_kafka

from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.record_batch_builder import RecordBatchBuilder
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.live import live
from support.log_dirs import read_records
from support.polling import until

POLICY = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0.01"}


def keyed(*pairs, timestamp):
    builder = RecordBatchBuilder()
    for key, value in pairs:
        builder.append(timestamp, key, value)
    return builder.build()


async def test_overwritten_keys_keep_their_last_value(tmp_path, caplog):
    caplog.set_level(logging.INFO, "storage.compaction.log_cleaner")
    async with live(tmp_path, {"log.cleaner.backoff.ms": "20"}) as broker:
        await broker.create("t", **POLICY)
        for number in range(60):
            pairs = [(b"key-%d" % key, b"%d" % number * 20) for key in range(5)]
            assert (await broker.produce("t", keyed(*pairs, timestamp=broker.clock.now_ms))).error_code == 0
        log = broker.log("t")
        cleaner = broker.broker.services.logs.cleaner
        await until(lambda: cleaner.checkpoints.get(("t", 0)) == log.segments.active.base_offset, "it is compacted")
        records = read_records(log)
        assert {record.key: record.value for record in records} == {b"key-%d" % key: b"59" * 20 for key in range(5)}
        assert len(records) < 60
        await until(lambda: log.compaction is None, "the run has ended")
        assert not list(log.directory.glob("*.cleaned")) + list(log.directory.glob("*.swap"))
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n1\nt 0 {log.segments.active.base_offset}\n"
    assert "t-0: compacted [0, " in caplog.text


async def test_tombstones_are_removed_after_delete_retention(tmp_path):
    settings = POLICY | {"delete_retention_ms": "1000"}
    async with live(tmp_path, {"log.cleaner.backoff.ms": "20"}) as broker:
        await broker.create("t", **settings)
        log = broker.log("t")
        cleaner = broker.broker.services.logs.cleaner

        async def write_and_compact(*pairs):
            assert (await broker.produce("t", keyed(*pairs, timestamp=broker.clock.now_ms))).error_code == 0
            log.roll()
            log.commit_all()
            end = log.segments.active.base_offset
            await until(lambda: cleaner.checkpoints.get(("t", 0)) == end and log.compaction is None, "it is compacted")
            return {record.key: record.value for record in read_records(log)}

        assert await write_and_compact((b"a", b"1"), (b"b", b"1")) == {b"a": b"1", b"b": b"1"}
        assert await write_and_compact((b"a", None)) == {b"a": None, b"b": b"1"}
        broker.clock.now_ms += 999
        assert await write_and_compact((b"c", b"1")) == {b"a": None, b"b": b"1", b"c": b"1"}
        broker.clock.now_ms += 1
        assert await write_and_compact((b"c", b"2")) == {b"b": b"1", b"c": b"2"}


async def test_compact_and_delete_together(tmp_path):
    settings = POLICY | {"cleanup_policy": "compact,delete", "retention_ms": "30000"}
    async with live(tmp_path, {"log.cleaner.backoff.ms": "20"}) as broker:
        await broker.create("t", **settings)
        log = broker.log("t")
        broker.clock.now_ms = time.time_ns() // 1_000_000  # an emptied segment is as old as its file
        for number in range(30):
            await broker.produce("t", keyed((b"k%d" % (number % 7), b"v" * 200), timestamp=broker.clock.now_ms))
        cleaner = broker.broker.services.logs.cleaner
        await until(lambda: cleaner.totals.runs and len(read_records(log)) < 30, "it is compacted")
        assert log.log_start_offset == 0
        broker.clock.now_ms += 3_600_000  # the files may be half a minute younger than the clock
        await until(lambda: log.log_start_offset == 30, "what is too old is deleted")


async def test_a_restart_continues_from_the_cleaner_checkpoint(tmp_path, caplog):
    caplog.set_level(logging.INFO, "storage.compaction.log_cleaner")
    settings = {"log.cleaner.backoff.ms": "20"}
    async with live(tmp_path, settings, restarts=True) as broker:
        await broker.create("t", **POLICY)
        log = broker.log("t")
        for number in range(30):
            await broker.produce("t", keyed((b"k", b"%d" % number * 100), timestamp=broker.clock.now_ms))
        cleaner = broker.broker.services.logs.cleaner
        end = log.segments.active.base_offset
        await until(lambda: cleaner.checkpoints.get(("t", 0)) == end and log.compaction is None, "it is compacted")
    async with live(tmp_path, settings, restarts=True) as broker:
        cleaner = broker.broker.services.logs.cleaner
        assert cleaner.checkpoints == {("t", 0): end}
        log = broker.log("t")
        for number in range(30):
            await broker.produce("t", keyed((b"k", b"%d" % number * 100), timestamp=broker.clock.now_ms))
        await until(lambda: cleaner.totals.runs, "it is compacted again")
        assert f"t-0: compacted [{end}, " in caplog.text


async def test_deleting_a_topic_stops_its_compaction(tmp_path):
    settings = {"log.cleaner.backoff.ms": "20", "log.cleaner.io.max.bytes.per.second": "1000"}
    async with live(tmp_path, settings) as broker:
        await broker.create("t", **POLICY)
        log = broker.log("t")
        for number in range(30):
            await broker.produce("t", keyed((b"k", b"%d" % number * 100), timestamp=broker.clock.now_ms))
        await until(lambda: log.compaction is not None, "its compaction has begun, and would take long")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=bytes(16))], timeout_ms=DEADLINE_MS)
        response = await broker.ask(request)
        assert response.responses[0].error_code == 0
        await until(lambda: log.closed and log.compaction is None, "it was given up")
        cleaner = broker.broker.services.logs.cleaner
        assert cleaner.uncleanable == {}
        await broker.create("t", **POLICY)
        assert broker.log("t").log_end_offset == 0


async def test_confluent_kafka_reads_the_last_value_of_every_key_during_compaction(tmp_path):
    async with live(tmp_path, {"log.cleaner.backoff.ms": "20"}) as broker:
        await broker.create("t", **POLICY | {"segment_bytes": "20000"})
        servers = broker.broker.bootstrap_servers
        log = broker.log("t")
        cleaner = broker.broker.services.logs.cleaner
        expected = await asyncio.to_thread(overwrite_keys, servers, 20_000)
        await until(lambda: cleaner.totals.runs >= 1, "it was compacted while it was written to")
        dirty = cleaner.find_filthiest
        await until(lambda: log.compaction is None and dirty() is None, "nothing is left to be compacted")
        seen, count = await asyncio.to_thread(read_all, servers, log.log_end_offset)
        assert {key: value for key, value in seen.items() if value is not None} == {
            key: value for key, value in expected.items() if value is not None
        }
        assert count < 20_000 / 4
        assert log.log_end_offset == 20_000


def overwrite_keys(servers, count):
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    failed, expected = [], {}
    for number in range(count):
        key = b"key-%d" % (number * number % 97)
        value = None if number % 11 == 0 else b"%d" % number
        expected[key] = value
        producer.produce("t", value, key, partition=0, on_delivery=lambda error, _: error and failed.append(error))
        if number % 1000 == 0:
            producer.flush(DEADLINE_S)
    assert producer.flush(DEADLINE_S) == 0
    assert failed == []
    return expected


def read_all(servers, end):
    """The last value of every key, and how many messages it took."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    seen, count = {}, 0
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                return seen, count
            seen[message.key()] = message.value()
            count += 1
    finally:
        consumer.close()

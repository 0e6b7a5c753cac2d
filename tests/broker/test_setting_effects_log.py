"""The settings of logs, seen in a live broker four ways: without it, from the file, of the topic, changed at runtime.

A row observes something; without the setting it must be one thing and with it another, so every row can fail.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.settings.catalog import BROKER_SETTINGS
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.record_batch import RecordBatch
from storage.compaction.run import compact_log
from storage.setting import CLUSTER_WIDE
from support.deadlines import DEADLINE_MS
from support.live import START_MS, Live, batch, live

HOUR_MS = 3_600_000


@dataclass
class Effect:
    """What a setting changes: `observe` gives `without` or `with_it`; `also` is set in either case."""

    broker: Mapping[str, str]
    topic: Mapping[str, str]
    observe: Callable[[Live, str], Awaitable[Any]]
    without: Any
    with_it: Any
    also: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return next(iter(self.broker))


async def error_of_a_keyless_record(broker, topic):
    return ErrorCode((await broker.produce(topic, [b"v"])).error_code)


async def stored_codec(broker, topic):
    await broker.produce(topic, [b"v" * 100] * 10)
    return stored(broker, topic).compression


async def stored_size(broker, topic):
    words = b" ".join(b"%d" % (number * number % 9973) for number in range(9000))
    await broker.produce(topic, [words])
    return stored(broker, topic).size_bytes


def stored(broker, topic):
    log = broker.log(topic)
    data = log.read(0, 1 << 20, max_offset=log.log_end_offset).records
    return RecordBatch(memoryview(data.to_bytes()))


async def deleted_files_left_after_a_second(broker, topic):
    await three_batches(broker, topic)
    await delete_records(broker, topic)
    log = broker.log(topic)
    log.delete_old_segments()
    broker.clock.now_ms += 1000
    await broker.broker.services.logs.delayed_deletes.run_due()
    return len(list(log.directory.glob("*.deleted"))) > 0


async def delete_records(broker, topic, offset=-1):
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=DEADLINE_MS
    )
    response = await broker.ask(request)
    assert response.topics[0].partitions[0].error_code == 0


async def forced_to_disk_before_the_answer(broker, topic):
    broker.fs.synced.clear()
    await broker.produce(topic, [b"v"])
    return "00000000000000000000.log" in broker.fs.synced


async def forced_to_disk_when_due(broker, topic):
    await broker.produce(topic, [b"v"])
    broker.clock.now_ms += 1000
    await broker.broker.services.logs.flush_due_logs()
    return broker.log(topic).recovery_point


async def index_entries(broker, topic):
    await three_batches(broker, topic)
    return broker.log(topic).segments.active.offset_index.entries


async def three_batches(broker, topic):
    for _ in range(3):
        assert (await broker.produce(topic, [b"v" * 200])).error_code == 0


async def segments_after_three_batches(broker, topic):
    await three_batches(broker, topic)
    return len(broker.log(topic).segments)


async def error_of_a_large_batch(broker, topic):
    return ErrorCode((await broker.produce(topic, [b"v" * 2000])).error_code)


async def error_of_an_old_consumer(broker, topic):
    await broker.produce(topic, [b"v"])
    response = await broker.fetch(topic, version=3)
    return ErrorCode(response.responses[0].partitions[0].error_code)


def error_at(offset_ms):
    async def error_of_a_record_of_another_time(broker, topic):
        records = batch([b"v"], timestamp=START_MS + offset_ms)
        return ErrorCode((await broker.produce(topic, records)).error_code)

    return error_of_a_record_of_another_time


async def time_that_the_broker_stamped(broker, topic):
    broker.clock.now_ms += 5
    return (await broker.produce(topic, batch([b"v"]))).log_append_time_ms


async def error_with_acks_all(broker, topic):
    """With two replicas of which one is in sync: more than there are is never asked for."""
    me = broker.broker.services.broker_id
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=me, leader_epoch=1, isr=[me], partition_epoch=1, replicas=[me, me + 1]
    )
    topic_id = broker.log(topic).topic_id
    outcome = await broker.broker.services.replicas.controller_requests.become_leader_or_follower(
        [(topic, topic_id, state)]
    )
    assert outcome == {(topic, 0): None}
    return ErrorCode((await broker.produce(topic, [b"v"], acks=-1)).error_code)


async def size_of_the_file(broker, topic):
    await broker.produce(topic, [b"v"])
    path = broker.log(topic).directory / "00000000000000000000.log"
    return path.stat().st_size > 1000


async def start_after_retention(broker, topic):
    await three_batches(broker, topic)
    await broker.broker.services.logs.delete_old_segments()
    return broker.log(topic).log_start_offset


def start_after(age_ms):
    async def start_when_the_records_are_old(broker, topic):
        await three_batches(broker, topic)
        broker.clock.now_ms += age_ms
        await broker.broker.services.logs.delete_old_segments()
        return broker.log(topic).log_start_offset

    return start_when_the_records_are_old


def segments_over(age_ms):
    async def segments_of_records_of_different_age(broker, topic):
        await broker.produce(topic, batch([b"v"]))
        await broker.produce(topic, batch([b"v"], timestamp=START_MS + age_ms))
        return len(broker.log(topic).segments)

    return segments_of_records_of_different_age


async def write_in_segments(broker, topic):
    """Ten versions of one key, a segment each; the active one holds the last."""
    for number in range(10):
        assert (await broker.produce(topic, [(b"k", b"%d" % number * 100)])).error_code == 0
    return broker.broker.services.logs.cleaner


async def is_compacted_when_half_of_it_is_dirty(broker, topic):
    cleaner = await write_in_segments(broker, topic)
    cleaner.checkpoints[topic, 0] = 4
    return cleaner.find_filthiest() is not None


async def is_compacted_at_once(broker, topic):
    cleaner = await write_in_segments(broker, topic)
    return cleaner.find_filthiest() is not None


async def is_compacted_for_its_age(broker, topic):
    cleaner = await write_in_segments(broker, topic)
    broker.clock.now_ms += 5000
    return cleaner.find_filthiest() is not None


async def time_that_a_tombstone_stays(broker, topic):
    assert (await broker.produce(topic, [(b"k", None)])).error_code == 0
    log = broker.log(topic)
    log.roll()
    compact_log(log, 0, 1)
    return stored(broker, topic).delete_horizon_ms - broker.clock.now_ms


OK = ErrorCode.NONE
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "200"}
SMALL_SEGMENTS = {"segment.bytes": "300"}
EFFECTS = [
    Effect(
        {"log.cleanup.policy": "compact"},
        {"cleanup.policy": "compact"},
        error_of_a_keyless_record,
        OK,
        ErrorCode.INVALID_RECORD,
    ),
    Effect(
        {"compression.type": "lz4"},
        {"compression.type": "lz4"},
        stored_codec,
        CompressionType.NONE,
        CompressionType.LZ4,
    ),
    Effect(
        {"compression.gzip.level": "1"},
        {"compression.gzip.level": "1"},
        stored_size,
        "a size",
        "another",
        {"compression.type": "gzip"},
    ),
    Effect(
        {"compression.lz4.level": "12"},
        {"compression.lz4.level": "12"},
        stored_size,
        "a size",
        "another",
        {"compression.type": "lz4"},
    ),
    Effect(
        {"compression.zstd.level": "19"},
        {"compression.zstd.level": "19"},
        stored_size,
        "a size",
        "another",
        {"compression.type": "zstd"},
    ),
    Effect(
        {"log.segment.delete.delay.ms": "0"},
        {"file.delete.delay.ms": "0"},
        deleted_files_left_after_a_second,
        True,
        False,
        SMALL_SEGMENTS,
    ),
    Effect(
        {"log.flush.interval.messages": "1"},
        {"flush.messages": "1"},
        forced_to_disk_before_the_answer,
        False,
        True,
    ),
    Effect({"log.flush.interval.ms": "500"}, {"flush.ms": "500"}, forced_to_disk_when_due, 0, 1),
    Effect({"log.index.interval.bytes": "0"}, {"index.interval.bytes": "0"}, index_entries, 0, 2),
    Effect(
        {"log.index.size.max.bytes": "24"},
        {"segment.index.bytes": "24"},
        segments_after_three_batches,
        1,
        2,
        {"index.interval.bytes": "0"},
    ),
    Effect(
        {"message.max.bytes": "1000"},
        {"max.message.bytes": "1000"},
        error_of_a_large_batch,
        OK,
        ErrorCode.MESSAGE_TOO_LARGE,
    ),
    Effect(
        {"log.message.downconversion.enable": "false"},
        {"message.downconversion.enable": "false"},
        error_of_an_old_consumer,
        OK,
        ErrorCode.UNSUPPORTED_VERSION,
    ),
    Effect(
        {"log.message.timestamp.after.max.ms": "1000"},
        {"message.timestamp.after.max.ms": "1000"},
        error_at(5000),
        OK,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    Effect(
        {"log.message.timestamp.before.max.ms": "1000"},
        {"message.timestamp.before.max.ms": "1000"},
        error_at(-5000),
        OK,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    Effect(
        {"log.message.timestamp.difference.max.ms": "1000"},
        {"message.timestamp.difference.max.ms": "1000"},
        error_at(5000),
        OK,
        ErrorCode.INVALID_TIMESTAMP,
    ),
    Effect(
        {"log.message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.type": "LogAppendTime"},
        time_that_the_broker_stamped,
        -1,
        START_MS + 5,
    ),
    Effect(
        {"min.insync.replicas": "2"},
        {"min.insync.replicas": "2"},
        error_with_acks_all,
        OK,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ),
    Effect(
        {"log.preallocate": "true"},
        {"preallocate": "true"},
        size_of_the_file,
        False,
        True,
        {"segment.bytes": "100000"},
    ),
    Effect(
        {"log.retention.bytes": "300"},
        {"retention.bytes": "300"},
        start_after_retention,
        0,
        1,
        SMALL_SEGMENTS,
    ),
    Effect(
        {"log.cleaner.min.cleanable.ratio": "0.9"},
        {"min.cleanable.dirty.ratio": "0.9"},
        is_compacted_when_half_of_it_is_dirty,
        True,
        False,
        COMPACTED,
    ),
    Effect(
        {"log.cleaner.min.compaction.lag.ms": "1000"},
        {"min.compaction.lag.ms": "1000"},
        is_compacted_at_once,
        True,
        False,
        COMPACTED,
    ),
    Effect(
        {"log.cleaner.max.compaction.lag.ms": "1000"},
        {"max.compaction.lag.ms": "1000"},
        is_compacted_for_its_age,
        False,
        True,
        {**COMPACTED, "min.cleanable.dirty.ratio": "1"},
    ),
    Effect(
        {"log.cleaner.delete.retention.ms": "1000"},
        {"delete.retention.ms": "1000"},
        time_that_a_tombstone_stays,
        24 * HOUR_MS,
        1000,
        COMPACTED,
    ),
    Effect({"log.retention.ms": "1000"}, {"retention.ms": "1000"}, start_after(2000), 0, 3),
    Effect({"log.retention.minutes": "1"}, {}, start_after(61_000), 0, 3),
    Effect({"log.retention.hours": "1"}, {}, start_after(HOUR_MS + 1000), 0, 3),
    Effect({"log.segment.bytes": "300"}, {"segment.bytes": "300"}, segments_after_three_batches, 1, 3),
    Effect({"log.roll.ms": "1000"}, {"segment.ms": "1000"}, segments_over(2000), 1, 2),
    Effect({"log.roll.hours": "1"}, {}, segments_over(HOUR_MS + 1), 1, 2),
    # The jitter is random: that it is less than 1 ms of a whole day, or of four years, will not happen.
    Effect(
        {"log.roll.jitter.ms": str(24 * HOUR_MS)},
        {"segment.jitter.ms": str(24 * HOUR_MS)},
        segments_over(24 * HOUR_MS - 1),
        1,
        2,
        {"segment.ms": str(24 * HOUR_MS)},
    ),
    Effect(
        {"log.roll.jitter.hours": str(24 * 1500)},
        {},
        segments_over(24 * HOUR_MS - 1),
        1,
        2,
        {"segment.ms": str(24 * HOUR_MS)},
    ),
]
BY_TOPIC = [row for row in EFFECTS if row.topic]
DYNAMIC = [row for row in EFFECTS if all(BROKER_SETTINGS[name].update_mode == CLUSTER_WIDE for name in row.broker)]


async def observed(row, tmp_path, *, broker=None, topic=None, dynamic=None):
    async with live(tmp_path / "data", broker) as running:
        for name, text in (dynamic or {}).items():
            await running.set_dynamic(**{name: text})
        overrides = {**row.also, **(topic or {})}
        await running.create("t", **{name.replace(".", "_"): text for name, text in overrides.items()})
        return await row.observe(running, "t")


def check(row, value, sizes):
    """Sizes are not known beforehand: with the setting they must be other than without."""
    if row.with_it == "another":
        assert value != sizes
    else:
        assert value == row.with_it


async def size_without(row, tmp_path):
    if row.with_it != "another":
        return None
    return await observed(row, tmp_path / "without")


@pytest.mark.parametrize("row", EFFECTS, ids=str)
async def test_setting_of_the_broker(row, tmp_path):
    value = await observed(row, tmp_path, broker=row.broker)
    check(row, value, await size_without(row, tmp_path))


@pytest.mark.parametrize("row", BY_TOPIC, ids=str)
async def test_setting_of_the_topic(row, tmp_path):
    value = await observed(row, tmp_path, topic=row.topic)
    check(row, value, await size_without(row, tmp_path))


@pytest.mark.parametrize("row", DYNAMIC, ids=str)
async def test_setting_changed_at_runtime(row, tmp_path):
    value = await observed(row, tmp_path, dynamic=row.broker)
    check(row, value, await size_without(row, tmp_path))


@pytest.mark.parametrize("row", EFFECTS, ids=str)
async def test_without_the_setting(row, tmp_path):
    value = await observed(row, tmp_path)
    assert value == row.without or row.without == "a size"


async def test_dynamic_settings_apply_to_existing_topics(tmp_path):
    async with live(tmp_path / "data") as broker:
        await broker.create("t")
        assert (await broker.produce("t", [b"v" * 2000])).error_code == 0
        await broker.set_dynamic(message_max_bytes="1000")
        assert (await broker.produce("t", [b"v" * 2000])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        await broker.set_dynamic(message_max_bytes=None)
        assert (await broker.produce("t", [b"v" * 2000])).error_code == 0


async def test_settings_of_topics_survive_a_restart(tmp_path):
    async with live(tmp_path / "data", restarts=True) as broker:
        await broker.create("t", max_message_bytes="1000")
        await broker.set_dynamic(log_retention_ms="1000")
    async with live(tmp_path / "data", restarts=True) as broker:
        assert (await broker.produce("t", [b"v" * 2000])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert broker.log("t").config.retention_ms == 1000


async def test_a_preallocated_file_is_cut_to_size_and_read_again(tmp_path):
    settings = {"log.preallocate": "true", "log.segment.bytes": "100000"}
    async with live(tmp_path / "data", settings, restarts=True) as broker:
        await broker.create("t")
        await three_batches(broker, "t")
        path = broker.log("t").directory / "00000000000000000000.log"
        assert path.stat().st_size == 100_000
    assert path.stat().st_size < 1000
    async with live(tmp_path / "data", settings, restarts=True) as broker:
        assert (await broker.produce("t", [b"v"])).base_offset == 3
        assert (await broker.fetch("t", 3)).responses[0].partitions[0].records


async def test_a_preallocated_file_is_read_after_a_crash(tmp_path):
    settings = {"log.preallocate": "true", "log.segment.bytes": "100000"}
    async with live(tmp_path / "data", settings, restarts=True) as broker:
        await broker.create("t")
        await three_batches(broker, "t")
        path = broker.log("t").directory / "00000000000000000000.log"
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    with path.open("ab") as file:
        file.truncate(100_000)
    async with live(tmp_path / "data", settings, restarts=True) as broker:
        assert broker.log("t").log_end_offset == 3
        assert (await broker.produce("t", [b"v"])).base_offset == 3

"""What Kafka's own cleaner made of a log, made again: the same bytes, from the records that it was made of.

`compacted-0` and `compacted-purged-0` hold 6 rounds over 30 keys, then fillers; where a record is gone nobody knows
what it held, which is why anything can stand in for it.
"""

import pytest

from protocol.record_batch import iter_batches
from protocol.record_batch_builder import RecordBatchBuilder
from storage.compaction.run import compact_log
from support.log_dirs import (
    BASE_TIME_MS,
    copy_directory,
    expected,
    open_log,
    read_records,
    recorded_directory,
)

DAY_MS = 86_400_000
ROUND_KEYS = 30


def recorded_batches(name):
    return [each for segment in expected(name)["segments"] for each in segment["batches"]]


def source_batch(recorded, retained):
    """The batch as it was before compaction: its recorded records, and others in the place of those that are gone."""
    base = recorded["baseOffset"]
    builder = RecordBatchBuilder(
        base,
        producer_id=recorded["producerId"],
        producer_epoch=recorded["producerEpoch"],
        base_sequence=recorded["baseSequence"],
        partition_leader_epoch=recorded["partitionLeaderEpoch"],
    )
    for offset in range(base, recorded["lastOffset"] + 1):
        if offset in retained:
            timestamp, key, value = retained[offset]
        else:
            timestamp = 1_700_000_000_000 + offset // ROUND_KEYS * 1000 + offset % ROUND_KEYS
            key, value = b"key-%d" % (offset % ROUND_KEYS), b"gone"
        builder.append(timestamp, key, value)
    return builder.build()


def text(value):
    return None if value is None else value.encode()


def filler(offset, key):
    builder = RecordBatchBuilder(offset, partition_leader_epoch=0)
    builder.append(1_700_000_006_000, key, bytes(120))  # segments of ten, as recorded
    return builder.build()


def build(name, tmp_path, tombstones):
    """The log before the first compaction: (log, a function that appends up to an offset)."""
    log = open_log(tmp_path / name, segment_bytes=1 << 20, retention_ms=-1, cleanup_policy=("compact",))
    retained = {
        record["offset"]: (record["timestamp"], text(record["key"]), text(record["value"]))
        for each in recorded_batches(name)
        for record in each["records"]
    }
    retained |= tombstones
    whole = {each["baseOffset"]: each for each in recorded_batches(name)}

    def append_up_to(end):
        while log.log_end_offset < end:
            offset = log.log_end_offset
            recorded = whole.get(offset)
            if recorded is None and offset < 180:  # all of its records are gone
                following = min([start for start in whole if start > offset])
                last = min(offset + 4, following - 1)
                recorded = dict(whole[151], baseOffset=offset, baseSequence=offset, lastOffset=last)
            if recorded is not None:
                log.append_as_follower(source_batch(recorded, retained))
            else:
                log.append_as_follower(filler(offset, b"tail-%d" % (offset % 4)))
        log.roll()
        log.commit_all()

    return log, append_up_to


def compact(log, first_dirty, end, now_ms, delete_retention_ms):
    log.now_ms = lambda: now_ms
    log.config = log.config.with_overrides(segment_bytes=2048, delete_retention_ms=delete_retention_ms)
    result = compact_log(log, first_dirty, end)
    log.config = log.config.with_overrides(segment_bytes=1 << 20)
    assert result.end_offset == end


def same_files(log, name, bases):
    recorded = recorded_directory(name)
    for base in bases:
        for suffix in (".log", ".index", ".timeindex"):
            file = f"{base:020d}{suffix}"
            assert (log.directory / file).read_bytes() == (recorded / file).read_bytes(), file
        assert not (log.directory / f"{base:020d}.txnindex").exists()


def test_tombstones_are_kept_with_a_horizon_byte_for_byte(tmp_path):
    log, append_up_to = build("compacted-0", tmp_path, {})
    append_up_to(169)
    compact(log, 0, 169, 1795321942997 - DAY_MS, DAY_MS)
    for end in (210, 220, 230, 240, 250):
        append_up_to(end)
    append_up_to(260)
    compact(log, 169, 250, 1795321953110 - DAY_MS, DAY_MS)
    same_files(log, "compacted-0", [0, 169, 210, 220, 230, 240])
    assert [segment.base_offset for segment in log.segments] == [0, 169, 210, 220, 230, 240, 250, 260]
    log.close()


def test_tombstones_go_when_their_horizon_is_over_byte_for_byte(tmp_path):
    tombstones = {150 + key: (1_700_000_005_000 + key, b"key-%d" % key, None) for key in (0, 7, 14, 21, 28)}
    name = "compacted-purged-0"
    log, append_up_to = build(name, tmp_path, tombstones)
    append_up_to(169)
    compact(log, 0, 169, 1795235543066, 0)
    horizons = [each.delete_horizon_ms for each in batches_of(log, 0) if each.last_offset >= 150]
    assert horizons == [1795235543066, None, 1795235543066, 1795235543066, None]
    append_up_to(210)
    compact(log, 169, 210, 1795235553133, 0)
    for end in (220, 230, 240, 250, 260):
        append_up_to(end)
    compact(log, 210, 250, 1795235553134, 0)
    same_files(log, name, [0, 169, 210, 220, 230, 240])
    log.close()


def batches_of(log, number):
    return list(iter_batches((log.directory / f"{log.segments[number].base_offset:020d}.log").read_bytes()))


@pytest.mark.parametrize("name", ["compacted-0", "compacted-purged-0"])
def test_what_kafka_compacted_loses_nothing_when_compacted_again(name, tmp_path):
    settings = {
        "retention_ms": -1,
        "cleanup_policy": ("compact",),
        "segment_bytes": 2048,
        "now_ms": BASE_TIME_MS + 10_000,  # the producer has not expired
    }
    log = open_log(copy_directory(name, tmp_path), **settings)
    log.commit_all()
    before = read_records(log)
    producers = {key: entry.to_snapshot() for key, entry in log.producers.producers.items()}
    result = compact_log(log, 0, 250)
    assert result.stats.records_read == result.stats.records_written > 20
    assert result.stats.bytes_read == result.stats.bytes_written
    assert [segment.base_offset for segment in log.segments] == [0, 169, 250]  # the emptied ones are gone
    assert read_records(log) == before
    log.close()
    again = open_log(log.directory, clean=False, **settings)
    assert {key: entry.to_snapshot() for key, entry in again.producers.producers.items()} == producers
    assert read_records(again) == before
    again.close()

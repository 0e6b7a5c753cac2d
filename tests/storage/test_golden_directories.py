"""Directories that Apache Kafka 3.9 wrote: opened from a copy, read record by record, closed again."""

import pytest

from protocol.uuid import uuid_to_string
from storage.file_system import FileSystem
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.partition_metadata import read_topic_id
from storage.producers.snapshot import decode_snapshot, encode_snapshot
from storage.producers.transaction_index import TransactionIndex
from support.log_dirs import (
    EXPECTED,
    copy_directory,
    expected,
    matches,
    open_log,
    read_batches,
    recorded_config,
    recorded_directory,
)


def log_start(name):
    return 61 if name == "start-offset-0" else 0


HEADER = (
    *(
        "baseOffset",
        "lastOffset",
        "lastOffsetDelta",
        "count",
        "size",
        "magic",
        "crc",
        "attributes",
        "partitionLeaderEpoch",
    ),
    *("producerId", "producerEpoch", "baseSequence", "lastSequence", "isTransactional", "isControl", "deleteHorizonMs"),
    *("baseTimestampField", "maxTimestamp", "timestampType", "compresscodec"),
)


def header_of(batch):
    """The header by the names that expected/ has."""
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "lastOffsetDelta": batch.last_offset_delta,
        "count": batch.record_count,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "crc": batch.crc,
        "attributes": batch.attributes,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "baseTimestampField": batch.base_timestamp,
        "maxTimestamp": batch.max_timestamp,
        "timestampType": "LogAppendTime" if batch.timestamp_type else "CreateTime",
        "compresscodec": batch.compression.name.lower(),
    }


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("name", EXPECTED)
def test_reads_back_every_record(name, clean, tmp_path):
    want = expected(name)
    log = open_log(copy_directory(name, tmp_path), clean=clean, log_start_offset=log_start(name))
    wanted = [each for segment in want["segments"] for each in segment["batches"]]
    wanted = [each for each in wanted if each["lastOffset"] >= log.log_start_offset]
    found = read_batches(log)
    assert [each.base_offset for each in found] == [each["baseOffset"] for each in wanted]
    for each, recorded in zip(found, wanted, strict=True):
        each.check_crc()
        assert header_of(each) == {name: recorded[name] for name in HEADER}
        records = list(each.records())
        assert len(records) == len(recorded["records"])
        for record, wanted_record in zip(records, recorded["records"], strict=True):
            assert record.offset == wanted_record["offset"]
            assert record.timestamp == wanted_record["timestamp"]
            headers = wanted_record.get("headers", [])
            assert [name for name, _ in record.headers] == [name for name, _ in headers]
            for (_, value), (_, wanted_value) in zip(record.headers, headers, strict=True):
                assert matches(value, wanted_value)
            assert matches(record.key, wanted_record["key"])
            assert matches(record.value, wanted_record["value"])
    assert uuid_to_string(log.topic_id) == want["topicId"]


@pytest.mark.parametrize("name", EXPECTED)
def test_files_parse_to_what_was_recorded(name):
    fs = FileSystem()
    directory = recorded_directory(name)
    want = expected(name)
    for file, recorded in want["indexes"].items():
        path = str(directory / file)
        base = int(file[:20])
        if file.endswith(".index"):
            offsets = OffsetIndex(fs, _writable(path, fs), base, 10485760)
            assert [list(entry) for entry in offsets.absolute_entries()] == recorded
            for offset, position in recorded:
                assert offsets.lookup(offset) == position
        elif file.endswith(".timeindex"):
            times = TimeIndex(fs, _writable(path, fs), base, 10485760)
            assert [list(entry) for entry in times.absolute_entries()] == recorded
            for timestamp, offset in recorded:
                assert times.lookup(timestamp) == (timestamp, offset)
        elif file.endswith(".txnindex"):
            aborted = TransactionIndex(fs, path, base)
            aborted.load()
            assert [
                [entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset]
                for entry in aborted.entries
            ] == [
                [entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"]]
                for entry in recorded
            ]
        else:
            _check_snapshot(path, recorded)
    epochs = LeaderEpochCache(fs, str(directory))
    epochs.load()
    assert [list(entry) for entry in epochs.entries] == want["leaderEpochs"]
    assert uuid_to_string(read_topic_id(fs, str(directory)) or b"") == want["topicId"]


@pytest.fixture(autouse=True)
def _copies(tmp_path):
    _writable.target = tmp_path


def _writable(path, fs):
    """Indexes are opened for writing; the recorded ones must not be."""
    copy = f"{_writable.target}/{path.rpartition('/')[2]}"
    fs.write_file(copy, fs.read_file(path), sync=False)
    return copy


def _check_snapshot(path, recorded):
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read()
    entries = decode_snapshot(data, path)
    assert encode_snapshot(entries) == data
    for entry, want in zip(entries, recorded, strict=True):
        assert entry.producer_id == want["producerId"]
        assert entry.producer_epoch == want["producerEpoch"]
        assert entry.coordinator_epoch == want["coordinatorEpoch"]
        assert entry.timestamp == want["lastTimestamp"]
        assert entry.last_sequence == want["lastSequence"]
        assert entry.last_offset == want["lastDataOffset"]
        assert entry.offset_delta == want["lastOffsetDelta"]
        assert entry.current_txn_first_offset == want["currentTxnFirstOffset"]


def _contents(directory):
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("name", EXPECTED)
def test_open_and_close_does_not_change_the_files(name, clean, tmp_path):
    """Recovery builds the same indexes and snapshots that Kafka wrote while it appended."""
    directory = copy_directory(name, tmp_path)
    before = _contents(directory)
    log = open_log(directory, clean=clean, log_start_offset=log_start(name), **recorded_config(name))
    log.close()
    end = log.log_end_offset
    # Snapshots at or below the log start offset go, and recovery from offset 0 writes the others again, as in Kafka.
    for file in [file for file in before if file.endswith(".snapshot")]:
        offset = int(file[:20])
        stray = offset != end and all(offset != segment.base_offset for segment in log.segments)
        if offset <= log.log_start_offset or stray:
            del before[file]
    # A leader that appended nothing leaves an epoch at the log end offset. The log forgets it, as in Kafka; the file
    # is written with the next record.
    assert all(start < end for _, start in log.leader_epochs.entries)
    after = _contents(directory)
    assert sorted(after) == sorted(before)
    for file, data in before.items():
        if clean or name not in ("epochs-0.broker-0", "epochs-0.broker-1") or not file.endswith("timeindex"):
            # (These two had been stopped in between: an entry for the end of that time.)
            assert after[file] == data, file

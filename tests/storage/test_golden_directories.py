"""Directories that Apache Kafka 3.9 wrote: opened from a copy, read record by record, appended to, closed again."""

import pytest

from protocol.record_batch import iter_batches
from protocol.uuid import uuid_to_string
from storage.file_system import FileSystem
from storage.leader_epoch_cache import LeaderEpochCache
from storage.offset_index import OffsetIndex
from storage.partition_metadata import read_topic_id
from storage.producer_snapshot import decode_snapshot, encode_snapshot
from storage.time_index import TimeIndex
from storage.transaction_index import TransactionIndex
from support.log_dirs import (
    EXPECTED,
    batch,
    copy_directory,
    expected,
    matches,
    open_log,
    read_batches,
    recorded_directory,
)


def log_start(name):
    return 61 if name == "start-offset-0" else 0


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
        assert each.crc == recorded["crc"]
        assert each.size_bytes == recorded["size"]
        assert each.last_offset == recorded["lastOffset"]
        assert each.producer_id == recorded["producerId"]
        assert each.partition_leader_epoch == recorded["partitionLeaderEpoch"]
        records = list(each.records())
        assert len(records) == len(recorded["records"])
        for record, wanted_record in zip(records, recorded["records"], strict=True):
            assert record.offset == wanted_record["offset"]
            assert record.timestamp == wanted_record["timestamp"]
            if not each.is_control:
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
def test_open_and_close_leaves_the_bytes_as_they_are(name, clean, tmp_path):
    """Recovery builds the same indexes and snapshots that Kafka wrote while it appended."""
    directory = copy_directory(name, tmp_path)
    before = _contents(directory)
    log = open_log(directory, clean=clean, log_start_offset=log_start(name), **recorded_config(name))
    log.close()
    end = log.log_end_offset
    # Snapshots at or below the log start offset go, and recovery from offset 0 makes only the last ones anew;
    # a leader that appended nothing leaves an epoch at the log end offset: it goes as well. All as in Kafka.
    kept = {end, *(segment.base_offset for segment in log.segments[-2:])}
    for file in [file for file in before if file.endswith(".snapshot")]:
        offset = int(file[:20])
        stray = offset != end and all(offset != segment.base_offset for segment in log.segments)
        if offset <= log.log_start_offset or stray or (not clean and offset not in kept):
            del before[file]
    entries = [entry for entry in expected(name)["leaderEpochs"] if entry[1] < end]
    lines = [f"{epoch} {start}" for epoch, start in entries]
    before["leader-epoch-checkpoint"] = "".join(f"{line}\n" for line in ["0", len(lines), *lines]).encode()
    after = _contents(directory)
    assert sorted(after) == sorted(before)
    for file, data in before.items():
        if clean or name not in ("epochs-0.broker-0", "epochs-0.broker-1") or not file.endswith("timeindex"):
            # (These two had been stopped in between: an entry for the end of that time.)
            assert after[file] == data, file


def recorded_config(name):
    return {
        "multi-segment-0": {"segment_bytes": 16384, "index_interval_bytes": 512},
        "multi-segment-batched-0": {"segment_bytes": 8192, "index_interval_bytes": 1024},
        "transactional-0": {"segment_bytes": 4096, "index_interval_bytes": 512},
        "start-offset-0": {"segment_bytes": 2000},
    }.get(name, {})


@pytest.mark.parametrize("name", EXPECTED)
def test_accepts_appends(name, tmp_path):
    directory = copy_directory(name, tmp_path)
    log = open_log(directory, log_start_offset=log_start(name))
    end = log.log_end_offset
    count = len(read_batches(log))
    info = log.append_as_leader(batch("a", "b"), leader_epoch=9)
    assert (info.first_offset, info.last_offset) == (end, end + 1)
    log.close()
    log = open_log(directory, log_start_offset=log_start(name))
    found = read_batches(log)
    assert len(found) == count + 1
    assert [record.value for record in found[-1].records()] == [b"a", b"b"]
    assert log.leader_epochs.latest_epoch == 9
    assert log.leader_epochs.entries[-1] == (9, end)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("multi-segment-0", {"segment_bytes": 16384, "index_interval_bytes": 512}),
        ("multi-segment-batched-0", {"segment_bytes": 8192, "index_interval_bytes": 1024}),
        ("transactional-0", {"segment_bytes": 4096, "index_interval_bytes": 512}),
        ("idempotent-0", {}),
        ("transactional-2p-0", {}),
        ("transactional-2p-1", {}),
        ("transactional-open-0", {}),
        ("types-0", {}),
        ("codec-lz4-0", {}),
        ("grp-1", {}),
    ],
)
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_the_same_appends_give_the_same_files(name, settings, role, tmp_path):
    """Recorded batches appended one by one to a fresh log: every file equals Kafka's."""
    from storage.log_append import AppendOrigin

    source = recorded_directory(name)
    directory = tmp_path / source.name
    topic_id = read_topic_id(FileSystem(), str(source))
    log = open_log(directory, topic_id=topic_id, **settings)
    for file in sorted(source.glob("*.log")):
        for each in iter_batches(file.read_bytes()):
            data = bytearray(each.buffer)
            if role == "follower":
                log.append_as_follower(data)
            else:
                data[:8] = bytes(8)
                origin = AppendOrigin.COORDINATOR if each.is_control else AppendOrigin.CLIENT
                info = log.append_as_leader(memoryview(data), each.partition_leader_epoch, origin=origin)
                assert info.first_offset == each.base_offset
                assert not info.duplicate
    log.update_high_watermark(log.log_end_offset)
    log.close()
    want = _contents(source)
    got = _contents(directory)
    assert sorted(got) == sorted(want)
    for file, data in want.items():
        assert got[file] == data, file

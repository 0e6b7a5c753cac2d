"""Appending where Kafka left off, and appending the same as Kafka did: the files are Kafka's in both cases.

The judges of what stands in a log afterwards: the verification (indexes, snapshots, epochs against the batches), the
bytes that Kafka wrote, and the record classes of aiokafka and kafka-python.
"""

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

from protocol.control_records import ControlRecordType, EndTransactionMarker, encode_end_marker
from protocol.record_batch import iter_batches
from protocol.record_batch_builder import RecordBatchBuilder
from storage.errors import OutOfOrderSequenceError
from storage.file_system import FileSystem
from storage.log.append import AppendOrigin
from storage.log.partition_metadata import read_topic_id
from storage.verification.verification import verify_directory
from support.kafka_python import MemoryRecords as KafkaPythonRecords
from support.log_dirs import (
    EXPECTED,
    batch,
    copy_directory,
    expected,
    open_log,
    read_batches,
    recorded_config,
    recorded_directory,
)
from support.reference import REFERENCE

COMPACTED = {"compacted-0", "compacted-purged-0"}
START = {"start-offset-0": 61}


def files_of(directory):
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def log_files(directory):
    return {file.name: file.read_bytes() for file in sorted(directory.glob("*.log"))}


class TestGoingOn:
    """Every directory takes what a leader, a follower and producers bring next."""

    @pytest.fixture(params=EXPECTED)
    def name(self, request):
        return request.param

    @pytest.fixture
    def log(self, name, tmp_path):
        return open_log(copy_directory(name, tmp_path), log_start_offset=START.get(name, 0), **recorded_config(name))

    def sound_after(self, log, name, count):
        """Closed, the files hold what Kafka wrote and `count` batches more, and a start reads all of it."""
        log.update_high_watermark(log.log_end_offset)
        log.close()
        for file, recorded in log_files(recorded_directory(name)).items():
            assert (log.directory / file).read_bytes().startswith(recorded)
        assert [
            problem for problem in verify_directory(log.directory) if "probably deleted" not in problem.message
        ] == []
        again = open_log(log.directory, log_start_offset=START.get(name, 0), clean=False, **recorded_config(name))
        assert again.log_end_offset == log.log_end_offset
        found = read_batches(again)
        recorded_count = sum(
            one["lastOffset"] >= again.log_start_offset
            for each in expected(name)["segments"]
            for one in each["batches"]
        )
        assert len(found) == recorded_count + count
        return found[recorded_count:]

    def test_as_leader(self, log, name):
        end = log.log_end_offset
        info = log.append_as_leader(batch("a", "b"), leader_epoch=9)
        assert (info.first_offset, info.last_offset) == (end, end + 1)
        (found,) = self.sound_after(log, name, 1)
        assert [record.value for record in found.records()] == [b"a", b"b"]
        assert log.leader_epochs.entries[-1] == (9, end)

    def test_as_follower(self, log, name):
        end = log.log_end_offset
        sent = batch("a", base_offset=end, leader_epoch=9) + batch("b", "c", base_offset=end + 3, leader_epoch=10)
        log.append_as_follower(sent)
        with_gap = self.sound_after_a_gap(log, name)
        assert [each.base_offset for each in with_gap] == [end, end + 3]
        assert log.leader_epochs.entries[-2:] == [(9, end), (10, end + 3)]

    def sound_after_a_gap(self, log, name):
        log.close()
        assert not [problem for problem in verify_directory(log.directory) if problem.severity == "error"]
        return read_batches(open_log(log.directory, log_start_offset=START.get(name, 0)))[-2:]

    def test_a_producer_continues(self, log, name):
        """Each producer of the newest snapshot: its next sequence is taken, the one after that is not."""
        entries = list(log.producers.producers.values())
        idempotent = [entry for entry in entries if entry.last_sequence >= 0 and entry.current_txn_first_offset < 0]
        for entry in idempotent:
            following = (entry.producer_id, entry.producer_epoch, entry.last_sequence + 1)
            with pytest.raises(OutOfOrderSequenceError):
                log.append_as_leader(batch("x", producer=(*following[:2], following[2] + 1)), leader_epoch=9)
            log.append_as_leader(batch("next", producer=following), leader_epoch=9)
            assert log.append_as_leader(batch("next", producer=following), leader_epoch=9).duplicate
        log.append_as_leader(batch("new", producer=(4711, 0, 0)), leader_epoch=9)
        found = self.sound_after(log, name, len(idempotent) + 1)
        assert [each.producer_id for each in found] == [*(entry.producer_id for entry in idempotent), 4711]

    def test_transactions_continue(self, log, name):
        """What is open is aborted; a new transaction commits."""
        opened = [entry for entry in log.producers.producers.values() if entry.current_txn_first_offset >= 0]
        for entry in opened:
            log.append_as_leader(
                marker(entry.producer_id, entry.producer_epoch, ControlRecordType.ABORT),
                9,
                origin=AppendOrigin.COORDINATOR,
            )
        log.append_as_leader(batch("t", producer=(4711, 0, 0), transactional=True), leader_epoch=9)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == log.log_end_offset - 1
        log.append_as_leader(marker(4711, 0, ControlRecordType.COMMIT), 9, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == log.log_end_offset
        aborted = [entry for segment in log.segments for entry in segment.txn_index.entries]
        assert {entry.producer_id for entry in opened} <= {entry.producer_id for entry in aborted}
        self.sound_after(log, name, len(opened) + 2)


def marker(producer_id, producer_epoch, kind):
    builder = RecordBatchBuilder(
        0, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=-1, transactional=True, control=True
    )
    builder.append(1_800_000_000_000, *encode_end_marker(EndTransactionMarker(kind, 0)))
    return builder.build()


class TestTheSameAppends:
    """Recorded batches appended one by one to a fresh log, as they came: every file equals Kafka's."""

    @pytest.mark.parametrize(
        ("name", "role"),
        [
            (name, role)
            for name in sorted(set(EXPECTED) - COMPACTED)
            for role in ("leader", "follower")
            if (name, role) != ("log-append-time-0", "leader")  # a leader sets the time again
        ],
    )
    def test_appends_give_the_same_files(self, name, role, tmp_path):
        source = recorded_directory(name)
        directory = tmp_path / source.name
        options = recorded_config(name) | {"topic_id": read_topic_id(FileSystem(), str(source))}
        # Replicas that had been stopped in between, when their log ended with this offset.
        stopped_at = {"epochs-0.broker-0": 30, "epochs-0.broker-1": 20}.get(name)
        log = open_log(directory, **options)
        for each in (each for data in log_files(source).values() for each in iter_batches(data)):
            if each.base_offset == stopped_at:
                log.close()
                log = open_log(directory, **options)
            append(log, each, role, internal=name.startswith("__"))
        log.update_high_watermark(log.log_end_offset)
        log.increment_log_start_offset(START.get(name, 0))
        for epoch, start in expected(name)["leaderEpochs"]:
            if start == log.log_end_offset:
                log.leader_epochs.assign(epoch, start)  # it led without a record
        log.close()
        want = files_of(source)
        got = files_of(directory)
        if name in START:  # what it tells of lies below the start: Kafka had no time to remove it
            want = {file: data for file, data in want.items() if file in got or int(file[:20]) > START[name]}
        assert sorted(got) == sorted(want)
        for file, data in want.items():
            assert got[file] == data, file
        assert verify_directory(directory, deep=False) == [] or name in START


def append(log, recorded, role, *, internal):
    data = bytearray(recorded.buffer)
    if role == "follower":
        log.append_as_follower(data)
        return
    data[:8] = bytes(8)
    origin = AppendOrigin.COORDINATOR if recorded.is_control or internal else AppendOrigin.CLIENT
    info = log.append_as_leader(memoryview(data), recorded.partition_leader_epoch, origin=origin)
    assert info.first_offset == recorded.base_offset
    assert not info.duplicate


def test_layout_after_a_clean_stop():
    """The recorded directories are those of the layout: what equals them has its file set and sizes."""
    rows = (REFERENCE / "log-dirs" / "layout-stopped.tsv").read_text().splitlines()[1:]
    layout = {path: int(size) for size, path in (row.split("\t") for row in rows)}
    for name in EXPECTED:
        if "." not in name:
            sizes = {f"{name}/{file}": len(data) for file, data in files_of(recorded_directory(name)).items()}
            assert sizes == {path: size for path, size in layout.items() if path.startswith(f"{name}/")}


class TestOtherReaders:
    """Our segments, and what stands in them, as the Python clients' own record classes read them."""

    @pytest.mark.parametrize("name", sorted(set(EXPECTED) - COMPACTED))
    def test_kafka_python_reads_the_written_log(self, name, tmp_path):
        log = open_log(copy_directory(name, tmp_path), log_start_offset=START.get(name, 0), **recorded_config(name))
        for number in range(5):
            log.append_as_leader(batch("a", "b", producer=(4711, 0, 2 * number)), leader_epoch=9)
        log.close()
        for path in sorted(log.directory.glob("*.log")):
            data = path.read_bytes()
            ours = [
                (record.offset, record.timestamp, record.key, record.value, list(record.headers))
                for each in iter_batches(data)
                for record in each.records()
            ]
            for reader in (AiokafkaRecords(data), KafkaPythonRecords(data)):
                theirs = []
                while (each := reader.next_batch()) is not None:
                    assert each.validate_crc()
                    theirs += [
                        (record.offset, record.timestamp, record.key, record.value, list(record.headers))
                        for record in each
                    ]
                assert theirs == ours

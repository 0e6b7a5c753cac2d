"""Every damage to a log directory is found at its place, and a repair ends it."""

import random
import struct

import pytest

from protocol.record_batch import iter_batches, update_crc
from storage.file_system import FileSystem
from storage.producers.snapshot import decode_snapshot
from storage.verification.repair import Repair
from storage.verification.report import Severity, VerificationReport
from storage.verification.verification import verify, verify_directory
from support.log_dirs import (
    LOG_DIRS,
    RECORDED_NOW_MS,
    batch,
    bring,
    copy_directory,
    copy_log_directory,
    open_log,
    read_records,
)

LOG = "0" * 20 + ".log"
INDEX = "0" * 20 + ".index"
TIME_INDEX = "0" * 20 + ".timeindex"
TXN_INDEX = "0" * 20 + ".txnindex"


PARTITIONS = ("codec-zstd-0", "compacted-0", "grp-0", "grp-1", "grp-3", "idempotent-0", "start-offset-0")


@pytest.fixture
def data(tmp_path):
    """A copy of the recorded log directory, with some of its partitions; `damage` brings another."""
    return copy_log_directory("broker-0", tmp_path / "data", *PARTITIONS)


def errors(path):
    return [problem for problem in verify_directory(path) if problem.severity is Severity.ERROR]


def patch(data, position, new):
    return data[:position] + new + data[position + len(new) :]


def with_batch(data, number, change):
    """The segment with one batch changed and its checksum right again."""
    data = bytearray(data)
    position = list(iter_batches(bytes(data)))[number].position
    change(data, position)
    update_crc(data, position)
    return bytes(data)


def offset_delta_of_first_record(data, at):
    """Where it is: behind length, attributes and timestamp delta."""
    position = at + 61
    for _ in range(3):
        while data[position] & 0x80:
            position += 1
        position += 1
    return position


DAMAGES = {
    "bit in a record": ("multi-segment-0", LOG, lambda d: patch(d, 70, b"\xff"), "computed crc"),
    "cut batch": ("idempotent-0", LOG, lambda d: d[:-5], "cut off"),
    "zeros at the end": ("idempotent-0", LOG, lambda d: d + bytes(500), "500 bytes of zeros"),
    "garbage at the end": ("idempotent-0", LOG, lambda d: d + b"garbage!" * 9, "are lost"),
    "negative length": ("multi-segment-0", LOG, lambda d: patch(d, 8, b"\xff"), "length"),
    "magic": ("multi-segment-0", LOG, lambda d: patch(d, 16, b"\x07"), "unknown magic 7"),
    "base offset": ("multi-segment-0", LOG, lambda d: patch(d, 0, b"\0\0\0\0\0\0\0\x09"), "does not ascend"),
    "negative last offset delta": (
        "multi-segment-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: struct.pack_into(">i", data, at + 23, -1)),
        "last offset delta -1 is negative",
    ),
    "base offset of an earlier segment": (
        "multi-segment-0",
        f"{104:020d}.log",
        lambda d: patch(d, 0, struct.pack(">q", 103)),
        "base offset 103 is below the segment's, 104",
    ),
    "last offset out of reach": (
        "multi-segment-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: struct.pack_into(">i", data, at + 23, 2**31 - 1)),
        "is too far from the segment's base offset 0",
    ),
    "record offset in a batch": (
        "multi-segment-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: data.__setitem__(offset_delta_of_first_record(data, at), 2)),
        "record offset",
    ),
    "twice the same batch": ("grp-1", LOG, lambda d: d + d, "does not ascend"),
    "record count": (
        "codec-zstd-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: struct.pack_into(">i", data, at + 57, 1000)),
        "1000 records for 100 offsets",
    ),
    "record count in a batch": (
        "codec-zstd-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: struct.pack_into(">i", data, at + 57, 99)),
        "record",
    ),
    "unknown codec": (
        "codec-zstd-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: struct.pack_into(">h", data, at + 21, 7)),
        "compression type 7",
    ),
    "compressed block": (
        "codec-gzip-0",
        LOG,
        lambda d: with_batch(d, 1, lambda data, at: struct.pack_into(">q", data, at + 80, 7)),
        "",
    ),
    "index of half an entry": ("multi-segment-0", INDEX, lambda d: d[:-3], "not a multiple of the entry size 8"),
    "index into a batch": (
        "multi-segment-0",
        INDEX,
        lambda d: patch(d, 12, d[12:15] + bytes([d[15] + 1])),
        "no batch begins",
    ),
    "index behind the end": (
        "multi-segment-0",
        INDEX,
        lambda d: d + struct.pack(">ii", 103, 1 << 20),
        "after the end",
    ),
    "index of another offset": (
        "multi-segment-0",
        INDEX,
        lambda d: patch(d, 3, bytes([d[3] - 1])),
        "begins with offset",
    ),
    "index of an offset in the batch": (
        "multi-segment-batched-0",
        INDEX,
        lambda d: patch(d, 3, bytes([d[3] - 1])),
        "does not name the last offset",
    ),
    "index descends": ("multi-segment-0", INDEX, lambda d: d[:8] + d[16:24] + d[8:16] + d[24:], "must ascend"),
    "positions in the index descend": (
        "multi-segment-0",
        INDEX,
        lambda d: d[:12] + d[20:24] + d[16:20] + d[12:16] + d[24:],
        "must ascend",
    ),
    "time index of half an entry": (
        "multi-segment-0",
        TIME_INDEX,
        lambda d: d[:-5],
        "not a multiple of the entry size 12",
    ),
    "time of a batch": (
        "multi-segment-0",
        TIME_INDEX,
        lambda d: patch(d, 7, bytes([d[7] ^ 1])),
        "largest timestamp is",
    ),
    "time of a later batch": (
        "multi-segment-0",
        TIME_INDEX,
        lambda d: patch(d, 8, struct.pack(">i", struct.unpack(">i", d[8:12])[0] + 1)),
        "largest timestamp is",
    ),
    "time of no batch": (
        "multi-segment-0",
        TIME_INDEX,
        lambda d: d + struct.pack(">qi", 1 << 50, 9999),
        "above the segment's",
    ),
    "times descend": ("multi-segment-0", TIME_INDEX, lambda d: d[12:24] + d[:12] + d[24:], "must ascend"),
    "transaction missing": ("transactional-0", TXN_INDEX, lambda d: d[34:], "is missing"),
    "transaction without marker": (
        "transactional-0",
        TXN_INDEX,
        lambda d: patch(d, 25, bytes([d[25] + 1])),
        "no marker",
    ),
    "transaction begins elsewhere": (
        "transactional-0",
        TXN_INDEX,
        lambda d: patch(d, 17, bytes([d[17] + 1])),
        "the log says",
    ),
    "transaction of a version": ("transactional-0", TXN_INDEX, lambda d: patch(d, 1, b"\x05"), "unknown version 5"),
    "half a transaction": ("transactional-0", TXN_INDEX, lambda d: d[:-1], "not a multiple of 34"),
    "snapshot": ("idempotent-0", f"{85:020d}.snapshot", lambda d: patch(d, 20, b"\x55"), "computed crc"),
    "empty snapshot": ("idempotent-0", f"{85:020d}.snapshot", lambda d: b"", "too few"),
    "checkpoint of epochs": ("multi-segment-0", "leader-epoch-checkpoint", lambda d: b"0\n1\n", "expected"),
    "epoch missing": ("multi-segment-0", "leader-epoch-checkpoint", lambda d: b"0\n0\n", "is missing"),
    "another epoch": ("multi-segment-0", "leader-epoch-checkpoint", lambda d: b"0\n1\n3 0\n", "has epoch 0 in the log"),
    "epoch that begins within a batch": (
        "multi-segment-batched-0",
        "leader-epoch-checkpoint",
        lambda d: b"0\n2\n0 0\n1 1\n",
        "has epoch 0 in the log",
    ),
    "epoch behind the end": (
        "multi-segment-0",
        "leader-epoch-checkpoint",
        lambda d: b"0\n2\n0 0\n1 701\n",
        "above the log end offset",
    ),
    "epochs descend": ("multi-segment-0", "leader-epoch-checkpoint", lambda d: b"0\n2\n0 0\n1 0\n", "not ascending"),
    "topic id": ("multi-segment-0", "partition.metadata", lambda d: d.replace(b": 0", b": 1"), "unrecognized version"),
    "topic id of another": ("grp-2", "partition.metadata", lambda d: d.replace(b"tV_", b"tW_"), None),
    "recovery point behind the end": (
        "",
        "recovery-point-offset-checkpoint",
        lambda d: d.replace(b"codec-zstd 0 211", b"codec-zstd 0 212"),
        "codec-zstd-0: 212 is above the log end offset 211",
    ),
    "high watermark behind the end": (
        "",
        "replication-offset-checkpoint",
        lambda d: d.replace(b"grp 3 12", b"grp 3 13"),
        "grp-3: 13 is above",
    ),
    "log start behind the end": (
        "",
        "log-start-offset-checkpoint",
        lambda d: d.replace(b" 61", b" 101"),
        "101 is above",
    ),
    "cleaned behind the end": (
        "",
        "cleaner-offset-checkpoint",
        lambda d: d.replace(b"compacted 0 250", b"compacted 0 261"),
        "261 is above",
    ),
    "half a checkpoint": ("", "replication-offset-checkpoint", lambda d: d[:100], "expected"),
    "meta.properties": ("", "meta.properties", lambda d: d.replace(b"version=0", b"version=1"), "unsupported version"),
}

# What a recovery takes as it is, or has nothing to go by.
UNREPAIRABLE = {
    *("record count", "record count in a batch", "record offset in a batch", "unknown codec", "compressed block"),
    *("topic id", "topic id of another", "meta.properties"),
}


def damage(data, name):
    partition, file, change, clue = DAMAGES[name]
    path = data / partition / file
    if not path.exists():
        bring(LOG_DIRS / "broker-0" / partition, data)
    path.write_bytes(change(path.read_bytes()))
    return path, clue


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_at_its_position(name, data):
    path, clue = damage(data, name)
    found = errors(data)
    if clue is None:
        assert [(problem.path, problem.message) for problem in found] == [
            (str(data / "grp-2"), "its topic id differs from that of grp-0")
        ]
        return
    assert any(problem.path == str(path) and clue in problem.message for problem in found), found
    if path.suffix == ".log":
        assert all(
            problem.position is not None and problem.offset is not None
            for problem in found
            if problem.path == str(path)
        )


@pytest.mark.parametrize("name", sorted(set(DAMAGES) - UNREPAIRABLE))
def test_a_repair_leaves_a_valid_directory(name, data):
    path, _ = damage(data, name)
    untouched = {
        file: file.read_bytes() for file in data.rglob("*") if file.is_file() and file.parent not in (path.parent, data)
    }
    lines = repair(data, accept_loss=True)
    assert lines
    assert errors(data) == []
    assert {file: file.read_bytes() for file in untouched} == untouched


def repair(directory, *, accept_loss=False):
    report = VerificationReport()
    verify(directory, report, deep=True, live=False)
    lines = []
    Repair(FileSystem(), str(directory), lambda: RECORDED_NOW_MS, lines.append).run(report, accept_loss=accept_loss)
    return lines


class TestRepair:
    def test_synced_records_are_not_truncated(self, data):
        bring(LOG_DIRS / "broker-0" / "multi-segment-0", data)
        before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
        path, _ = damage(data, "bit in a record")
        before[path] = path.read_bytes()
        (line,) = repair(data)
        assert line.startswith(
            "multi-segment-0: not repaired: the log would be truncated to offset 0, but records up to offset 700"
        )
        assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before

    def test_unsynced_records_are_truncated(self, data):
        """Behind the recovery point and the high watermark lies what nobody was promised."""
        checkpoint = data / "replication-offset-checkpoint"
        for path in (checkpoint, data / "recovery-point-offset-checkpoint"):
            path.write_bytes(path.read_bytes().replace(b"idempotent 0 85", b"idempotent 0 80"))
        damage(data, "cut batch")
        (line,) = repair(data)
        assert line == "idempotent-0: recovered, cut 191 bytes, the log ends at offset 80"
        assert errors(data) == []
        assert len(read_records(open_log(data / "idempotent-0"))) == 80

    def test_the_records_before_the_damage_are_kept(self, data):
        path, _ = damage(data, "cut batch")
        repair(data, accept_loss=True)
        records = read_records(open_log(data / "idempotent-0"))
        assert [record.offset for record in records] == list(range(80))
        assert path.read_bytes() == (LOG_DIRS / "broker-0" / "idempotent-0" / LOG).read_bytes()[: path.stat().st_size]

    def test_indexes_are_rebuilt_without_truncation(self, data):
        for name in ("index descends", "time of a batch"):
            damage(data, name)
        (line,) = repair(data)
        assert line == "multi-segment-0: recovered, the log ends at offset 700"
        assert errors(data) == []

    def test_producers_of_any_age_are_kept(self, data):
        damage(data, "snapshot")
        repair(data)
        after = (data / "idempotent-0" / f"{85:020d}.snapshot").read_bytes()
        assert after == (LOG_DIRS / "broker-0" / "idempotent-0" / f"{85:020d}.snapshot").read_bytes()

    def test_producers_whose_records_are_gone_are_kept_however_old(self, data):
        """Retention has removed the records of producer 7; the snapshot at the new start of the log has its state."""
        log = open_log(data / "t-0", topic_id=bytes(range(16)), retention_ms=-1)
        log.append_as_leader(batch("old", producer=(7, 0, 0), timestamp=1), 0)
        log.roll()
        log.append_as_leader(batch("new"), 0)
        log.commit_all()
        log.increment_log_start_offset(1)
        log.delete_old_segments()
        log.close()
        for path in log.directory.glob("*.deleted"):
            path.unlink()
        (log.directory / f"{1:020d}.index").write_bytes(b"123")
        assert repair(data) == ["t-0: recovered, the log ends at offset 2"]
        snapshot = log.directory / f"{2:020d}.snapshot"
        assert [entry.producer_id for entry in decode_snapshot(snapshot.read_bytes(), "")] == [7]

    @pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
    def test_leftovers(self, suffix, data):
        source = data / "grp-0" / LOG
        (data / "grp-0" / (LOG + suffix)).write_bytes(source.read_bytes())
        before = source.read_bytes()
        problems = verify_directory(data / "grp-0")
        assert [(problem.severity, problem.path) for problem in problems] == [("warning", str(source) + suffix)]
        repair(data)
        assert verify_directory(data / "grp-0") == []
        assert source.read_bytes() == before

    @pytest.mark.parametrize("name", ["record count", "record count in a batch", "unknown codec"])
    def test_a_repair_keeps_what_a_recovery_keeps(self, name, data):
        """Its offset and what lies behind it are good: that records up to there were synced is no reason to refuse."""
        damage(data, name)
        (line,) = repair(data)
        assert line == "codec-zstd-0: recovered, the log ends at offset 211"

    def test_damage_that_cannot_be_repaired_is_kept(self, data):
        path, _ = damage(data, "topic id")
        (line,) = repair(data)
        assert line.startswith("multi-segment-0: not repaired")
        assert str(path) in line


@pytest.mark.parametrize(
    "name", ["multi-segment-batched-0", "transactional-0", "idempotent-0", "codec-lz4-0", "epochs-0.broker-1"]
)
def test_every_flipped_bit_is_detected(name, tmp_path):
    """In the log, the snapshots and the transaction indexes; in the sparse indexes it may make another true entry."""
    directory = copy_directory(name, tmp_path)
    rng = random.Random(name)
    files = [path for path in sorted(directory.iterdir()) if path.stat().st_size]
    for _ in range(60):
        path = rng.choice(files)
        content = path.read_bytes()
        position = rng.randrange(len(content))
        path.write_bytes(patch(content, position, bytes([content[position] ^ 1 << rng.randrange(8)])))
        problems = verify_directory(directory)
        assert problems or path.suffix not in (".log", ".snapshot", ".txnindex"), f"{path}: byte {position}"
        path.write_bytes(content)
    assert verify_directory(directory) == []

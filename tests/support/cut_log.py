"""The required contents of a log directory after a power cut: guarantees given during a workload, and their check."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.record import Record
from protocol.record_batch import RecordBatch, iter_batches
from storage.log.log import Log
from storage.log.segment import LogSegment
from storage.producers.snapshot import SnapshotEntry
from storage.producers.state import ProducerState
from support.power_cut import PowerCutFileSystem


@dataclass
class Expected:
    """The known state of one partition at some point."""

    versions: list[list[bytes]] = field(default_factory=lambda: [[]])  # batches, of before and after each truncation
    floor: int = 0  # what was synced: everything below is there
    start_at_least: int = 0
    start_at_most: int = 0
    must_exist: bool = False
    may_exist: bool = True
    known_before: dict[int, SnapshotEntry] = field(default_factory=dict)  # producers of records that are gone


Effect = Callable[[Expected], None]


class Promises:
    """The story of one partition: what became possible or certain, by the position in the journal."""

    def __init__(self, fs: PowerCutFileSystem) -> None:
        self._fs = fs
        self._story: list[tuple[int, Effect]] = []

    def since(self, began: int, effect: Effect) -> None:
        """A step that began at position `began` and is done may have had `effect` from its first operation on."""
        self._story.append((min(began + 1, self._fs.position), effect))

    def now(self, effect: Effect) -> None:
        """`effect` is certain from this operation on."""
        self._story.append((self._fs.position, effect))

    def at(self, position: int) -> Expected:
        """The state to expect if the power is cut after operation number `position`."""
        expected = Expected()
        for when, effect in self._story:
            if when <= position:
                effect(expected)
        return expected


def appended(batch: bytes | bytearray) -> Effect:
    """The batch may exist from now on."""
    return lambda expected: expected.versions[-1].append(bytes(batch))


def as_it_is(log: Log) -> Effect:
    """The story goes on with a log as it came back: what it holds may be lost again, but for what was synced."""
    version = raw_batches(log)
    floor, start = log.recovery_point, log.log_start_offset
    known = {entry.producer_id: entry.to_snapshot() for entry in log.producers.producers.values()}

    def effect(expected: Expected) -> None:
        expected.versions = [list(version)]
        expected.floor = floor
        expected.start_at_least = expected.start_at_most = start
        expected.must_exist = floor > 0
        expected.known_before = known

    return effect


def synced(offset: int) -> Effect:
    """All records below `offset` exist from now on."""

    def effect(expected: Expected) -> None:
        expected.floor = max(expected.floor, offset)
        expected.must_exist |= offset > 0

    return effect


def truncating(offset: int) -> Effect:
    """From now on, the records from `offset` on may be truncated."""

    def effect(expected: Expected) -> None:
        expected.floor = min(expected.floor, offset)
        expected.start_at_least = min(expected.start_at_least, offset)
        expected.versions.append([batch for batch in expected.versions[-1] if last_offset(batch) < offset])

    return effect


def truncated(expected: Expected) -> None:
    """The truncation is durable: truncated records do not return."""
    del expected.versions[:-1]


def starting(offset: int) -> Effect:
    """Records below `offset` may be deleted."""

    def effect(expected: Expected) -> None:
        expected.start_at_most = max(expected.start_at_most, offset)

    return effect


def started(offset: int) -> Effect:
    """Records below `offset` must not be visible any longer."""

    def effect(expected: Expected) -> None:
        expected.start_at_least = max(expected.start_at_least, offset)

    return effect


def deleting(expected: Expected) -> None:
    expected.must_exist = False


def deleted(expected: Expected) -> None:
    expected.may_exist = False


def base_offset(batch: bytes) -> int:
    return int(struct.unpack_from(">q", batch)[0])


def last_offset(batch: bytes) -> int:
    base, delta = struct.unpack_from(">q15xi", batch)
    return int(base + delta)


def visible_segments(log: Log) -> list[LogSegment]:
    """The segments that readers may come to. What was given up below them was perhaps never synced."""
    return [
        segment
        for segment, following in zip(log.segments, [*log.segments.base_offsets[1:], None], strict=True)
        if following is None or following > log.log_start_offset
    ]


def raw_batches(log: Log) -> list[bytes]:
    """Every batch of every segment, whole and of a right checksum, byte for byte."""
    found = []
    for segment in visible_segments(log):
        data = log.files.fs.read_file(segment.file.path)
        assert not any(data[segment.size :]), f"{segment}: what is behind its end is not preallocated"
        data = data[: segment.size]
        for batch in iter_batches(data):
            batch.check_crc()
            found.append(data[batch.position : batch.position + batch.size_bytes])
    return found


def check(log: Log | None, expected: Expected) -> None:
    """Compare a log after a power cut with what is expected. Raises AssertionError."""
    if log is None:
        assert not expected.must_exist, "the partition is gone"
        return
    assert expected.may_exist, "the partition was deleted"
    found = raw_batches(log)
    check_offsets(log, found, expected)
    check_contents(log, found, expected)
    check_indexes(log)
    check_epochs(log, found)
    check_producers(log, found, expected)


def check_compacted(log: Log | None, expected: Expected) -> None:
    """Compare a compacted log with what was appended: every synced key has its last value, or a later one."""
    if log is None:
        assert not expected.must_exist, "the partition is gone"
        return
    (version,) = expected.versions
    written = {record.offset: record for batch in version for record in _records(batch)}
    batches = raw_batches(log)
    found = [record for batch in batches for record in _records(batch)]
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets)), f"offsets {offsets}"
    assert log.log_end_offset > max(offsets, default=-1)
    assert log.log_end_offset >= expected.floor
    for record in found:
        assert (record.key, record.value) == (written[record.offset].key, written[record.offset].value)
    last_found = {record.key: record.offset for record in found}
    last_synced = {record.key: record.offset for record in written.values() if record.offset < expected.floor}
    for key, offset in last_synced.items():
        assert last_found.get(key, -1) >= offset, f"{key!r} was synced at {offset}, found at {last_found.get(key)}"
    check_indexes(log, several_batches_an_entry=True)
    check_epochs(log, batches)
    known = {entry.producer_id: entry.last_sequence for entry in log.producers.producers.values()}
    # A gap may be compaction's work, so a segment that lost its end unsynced stays in the middle of the log.
    least = _replay(log, [batch for batch in version if last_offset(batch) < expected.floor])
    most = _replay(log, [batch for batch in version if last_offset(batch) < log.log_end_offset])
    for producer, entry in least.items():
        assert entry.last_sequence <= known[producer] <= most[producer].last_sequence


def _records(batch: bytes) -> list[Record]:
    return list(RecordBatch(memoryview(batch)).records())


def check_offsets(log: Log, found: list[bytes], expected: Expected) -> None:
    bases = [segment.base_offset for segment in visible_segments(log)]
    assert bases == sorted(set(bases))
    assert bases[0] <= log.log_start_offset <= log.high_watermark <= log.log_end_offset
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark
    assert log.recovery_point <= log.log_end_offset
    assert expected.start_at_least <= log.log_start_offset <= expected.start_at_most
    end = bases[0]
    for batch in found:
        (base,) = struct.unpack_from(">q", batch)
        assert base == end or batch is found[0], f"a batch at {base} follows offset {end}"
        end = last_offset(batch) + 1
    assert log.log_end_offset == max(end, bases[-1])
    if found:
        assert log.log_end_offset == end, f"the log ends at {log.log_end_offset}, its batches at {end}"


def check_contents(log: Log, found: list[bytes], expected: Expected) -> None:
    for version in expected.versions:
        kept = [batch for batch in version if last_offset(batch) >= log.log_start_offset]
        if _is_slice(found, version):
            must = [batch for batch in kept if last_offset(batch) < expected.floor]
            visible = [batch for batch in found if last_offset(batch) >= log.log_start_offset]
            if visible[: len(must)] == must:
                return
    raise AssertionError(
        f"found {[last_offset(batch) for batch in found]} from {log.log_start_offset}, synced below {expected.floor}, "
        f"written {[[last_offset(batch) for batch in version] for version in expected.versions]}"
    )


def _is_slice(found: list[bytes], version: list[bytes]) -> bool:
    if not found:
        return True
    if found[0] not in version:
        return False
    start = version.index(found[0])
    return version[start : start + len(found)] == found


def check_indexes(log: Log, *, several_batches_an_entry: bool = False) -> None:
    """Every entry of every index points to a batch and says what is true of it.

    several_batches_an_entry: compaction writes some at a time, an entry names the last offset of them all.
    """
    for segment in visible_segments(log):
        last_offsets: dict[int, int] = {}
        timestamps: dict[int, int] = {}
        largest = -1
        for batch in iter_batches(log.files.fs.read_file(segment.file.path)[: segment.size]):
            last_offsets[batch.position] = batch.last_offset
            largest = max(largest, batch.max_timestamp)
            timestamps[batch.last_offset] = batch.max_timestamp
        previous = (-1, -1)
        for offset, position in segment.offset_index.absolute_entries():
            last = last_offsets.get(position)
            fits = last is not None and (last == offset or (several_batches_an_entry and last < offset))
            assert fits, f"{segment}: index entry {offset} at {position}"
            assert previous < (offset, position)
            previous = (offset, position)
        previous = (-1, -1)
        for timestamp, offset in segment.time_index.absolute_entries():
            assert timestamps.get(offset) == timestamp, f"{segment}: time index entry {timestamp} of {offset}"
            assert previous < (timestamp, offset)
            previous = (timestamp, offset)
        segment.load_max_timestamp()
        if segment is not log.segments[-1]:
            assert segment.max_timestamp == largest


def check_epochs(log: Log, found: list[bytes]) -> None:
    entries = log.leader_epochs.entries
    assert entries == sorted(set(entries))
    assert all(start <= log.log_end_offset for _, start in entries)
    for batch in found:
        base, _, epoch = struct.unpack_from(">qii", batch)
        if base >= log.log_start_offset:
            at = bisect_right([start for _, start in entries], base)
            assert at, f"no leader epoch at {base}"
            assert entries[at - 1][0] == epoch, f"epochs {entries}, at {base} it is {epoch}"


def check_producers(log: Log, found: list[bytes], expected: Expected) -> None:
    """Check that the producer state equals a replay of the log, with or without its deleted records."""
    least = _replay(log, [batch for batch in found if base_offset(batch) >= log.log_start_offset])
    version = next(each for each in reversed(expected.versions) if _is_slice(found, each))
    end = last_offset(found[-1]) + 1 if found else log.log_end_offset
    most = _replay(log, [batch for batch in version if last_offset(batch) < end], expected.known_before)
    known = {entry.producer_id: entry.to_snapshot() for entry in log.producers.producers.values()}
    assert least.keys() <= known.keys() <= most.keys(), f"{least} <= {known.keys()} <= {most}"
    for producer, entry in known.items():
        right = least.get(producer), most[producer]
        assert entry in right, f"{entry}, not {right}"
    aborted = [entry for segment in visible_segments(log) for entry in segment.txn_index.entries]
    missing = [entry for entry in _aborted(log, found) if entry not in aborted]
    # The first offset of a transaction, and the last stable offset, may lie in what was deleted.
    markers = {entry.last_offset for entry in aborted}
    assert not [entry for entry in missing if entry.last_offset not in markers], f"{missing} are not in {aborted}"
    assert len(markers) == len(aborted)


def _replay(log: Log, batches: list[bytes], before: dict[int, SnapshotEntry] | None = None) -> dict[int, SnapshotEntry]:
    state = ProducerState(log.files.fs, str(log.directory))
    state.restore(list((before or {}).values()))
    for batch in batches:
        state.replay(RecordBatch(memoryview(batch)))
    return {entry.producer_id: entry.to_snapshot() for entry in state.producers.values()}


def _aborted(log: Log, batches: list[bytes]) -> list[object]:
    state = ProducerState(log.files.fs, str(log.directory))
    return [entry for batch in batches if (entry := state.replay(RecordBatch(memoryview(batch)))) is not None]

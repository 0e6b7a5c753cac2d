"""Checks of the reads and files of a log against its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from support.log_dirs import look_up
from support.log_model import Batch

if TYPE_CHECKING:
    from support.log_history import History

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def pick(byte: int, upper: int) -> int:
    """Map a byte to 0..upper, both ends included."""
    return byte * upper // 255 if upper > 0 else 0


def layout(history: History) -> list[tuple[int, list[Batch]]]:
    """(base offset, batches) of every segment."""
    bases = history.log.segments.base_offsets
    ends = [*bases[1:], 1 << 62]
    batches = history.model.batches
    return [
        (base, [each for each in batches if base <= each.base < end]) for base, end in zip(bases, ends, strict=True)
    ]


def expected_read(history: History, offset: int, max_bytes: int, bound: int, *, whole: bool) -> bytes:
    """What a read gives: batches of one segment from the one with `offset` on, up to `bound`, cut at the limit."""
    for _, batches in layout(history):
        batches = [each for each in batches if each.last >= offset]
        if batches:
            data = b"".join([each.data for each in batches if each.last < bound]) if offset < bound else b""
            return data[: max(max_bytes, len(batches[0].data) if whole else 0)]
    return b""


def check_files(history: History) -> None:
    """Check that segments equal the model byte by byte, that index entries are right, and that no other file exists."""
    log = history.log
    names = {path.name for path in Path(log.directory).iterdir()}
    for path in [Path(path).name for paths, _ in history.pending for path in paths]:
        names.discard(path)
    names -= {"leader-epoch-checkpoint", "partition.metadata"}
    names -= {f"{offset:020d}.snapshot" for offset in log.producers.snapshots}
    for segment, (base, batches) in zip(log.segments, layout(history), strict=True):
        assert segment.base_offset == base
        assert segment.size == sum(len(each.data) for each in batches)
        stem = f"{base:020d}"
        assert log.files.fs.read_file(f"{log.directory}/{stem}.log") == b"".join([each.data for each in batches])
        assert {stem + suffix for suffix in SUFFIXES[:3]} <= names
        names -= {stem + suffix for suffix in SUFFIXES}
        check_indexes(segment, batches)
    assert not names, f"nobody knows these files: {names}"
    told = [entry for segment in log.segments for entry in segment.txn_index.entries]
    first = log.segments[0].base_offset
    assert told == [each for each in history.model.aborted if each.last_offset >= first]


def check_indexes(segment, batches: list[Batch]) -> None:
    positions = {}
    position = 0
    for each in batches:
        positions[position] = each
        position += len(each.data)
    entries = segment.offset_index.absolute_entries()
    assert entries == sorted(set(entries))
    for offset, position in entries:
        assert positions[position].base <= offset <= batches[-1].last
    entries = segment.time_index.absolute_entries()
    assert entries == sorted(set(entries))
    for timestamp, offset in entries:
        assert any(each.last == offset and each.max_timestamp == timestamp for each in batches)
        assert timestamp >= max(each.max_timestamp for each in batches if each.last <= offset)


def check_max_timestamp(history: History) -> None:
    """It may be that of a batch whose records compaction removed; then there is none, or another one."""
    batches = history.model.batches
    best = max((each.max_timestamp for each in batches), default=-1)
    if all(each.records for each in batches if each.max_timestamp == best):
        assert look_up(history.log, None) == history.model.of_max_timestamp()


def check_reads(history: History) -> None:
    """Every batch from its first and last offset, every record from its timestamp, every epoch's end."""
    log, model = history.log, history.model
    offset = model.start
    while offset < model.end:
        info = log.read(offset, 1 << 20, max_offset=model.end)
        data = b"" if info.records is None else info.records.to_bytes()
        assert data == expected_read(history, offset, 1 << 20, model.end, whole=True)
        if not data:
            break
        offset = max(each.last for each in model.batches if each.last >= offset and each.data in data) + 1
    for each in model.batches[::3]:
        for offset in {each.base, each.last}:
            if offset >= model.start:
                info = log.read(offset, 1, max_offset=model.end)
                assert info.records is not None
                assert info.records.to_bytes() == each.data
    for each in model.batches[::4]:
        wanted = each.max_timestamp
        assert look_up(log, wanted) == model.at_timestamp(wanted)
    check_max_timestamp(history)
    first = model.epochs[0][1] if model.epochs else model.end
    for each in model.batches:
        if each.base >= first:
            assert log.leader_epochs.epoch_for_offset(each.base) == each.epoch
    for epoch in range(-1, model.epoch + 2):
        assert log.end_offset_for_epoch(epoch) == model.end_offset_for_epoch(epoch)

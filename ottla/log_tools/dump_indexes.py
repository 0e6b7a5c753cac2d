"""Decode the small files beside a segment (indexes, snapshots, checkpoints), one dictionary for each entry.

An error becomes an entry of type "corrupt" with its position in bytes. The index files of the active segment are
preallocated: zeros after the last entry are free space, not entries.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from ottla.log_tools.dump_segment import Entry, corrupt
from storage.directories.checkpoints import LEADER_EPOCH_CHECKPOINT, parse_checkpoint
from storage.errors import CorruptFileError
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.producers.snapshot import decode_snapshot

_ABORTED = struct.Struct(">hqqqq")


def base_offset_of(path: Path) -> int:
    """Return the base offset in a segment file's name. Raises CorruptFileError."""
    stem = path.name.split(".")[0]
    if not stem.isascii() or not stem.isdigit():
        raise CorruptFileError(path, "the name does not begin with the segment's base offset")
    return int(stem)


def dump_offset_index(path: Path) -> Iterator[Entry]:
    """Yield the entries of `.index`: absolute offset and position in the segment file."""
    base = base_offset_of(path)
    previous = (-1, -1)
    for at, (relative, position) in _index_entries(path, OffsetIndex.ENTRY):
        entry = {"type": "offset_index", "offset": base + relative, "position": position}
        yield entry
        if relative <= previous[0] or (position <= previous[1] and previous[0] >= 0):
            yield corrupt(at, f"entry ({base + relative}, {position}) does not ascend")
        previous = (relative, position)


def dump_time_index(path: Path) -> Iterator[Entry]:
    """Yield the entries of `.timeindex`: the largest timestamp so far and its absolute offset."""
    base = base_offset_of(path)
    previous = (-1, -1)
    for at, (timestamp, relative) in _index_entries(path, TimeIndex.ENTRY):
        yield {"type": "time_index", "timestamp": timestamp, "offset": base + relative}
        if timestamp < previous[0] or relative < previous[1]:
            yield corrupt(at, f"entry ({timestamp}, {base + relative}) does not ascend")
        previous = (timestamp, relative)


def _index_entries(path: Path, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, int]]]:
    data = path.read_bytes()
    used = len(data.rstrip(b"\0"))
    used += -used % layout.size
    if used == 0 and len(data) == layout.size:
        used = len(data)  # a trimmed file of one entry that happens to be all zeros
    if used > len(data):
        used = len(data) - len(data) % layout.size
    for at in range(0, used, layout.size):
        first, second = layout.unpack_from(data, at)
        yield at, (first, second)
    if len(data) % layout.size:
        raise CorruptFileError(path, f"{len(data)} bytes are not a multiple of {layout.size}")


def dump_transaction_index(path: Path) -> Iterator[Entry]:
    """Yield the entries of `.txnindex`: the aborted transactions that end in the segment."""
    data = path.read_bytes()
    whole = len(data) - len(data) % _ABORTED.size
    for at in range(0, whole, _ABORTED.size):
        version, producer_id, first, last, stable = _ABORTED.unpack_from(data, at)
        if version != 0:
            yield corrupt(at, f"unknown version {version}")
            return
        yield {
            "type": "aborted_transaction",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }
    if whole != len(data):
        yield corrupt(whole, f"{len(data) - whole} bytes are too few for an entry of {_ABORTED.size}")


def dump_snapshot(path: Path) -> Iterator[Entry]:
    """Yield the entries of `.snapshot`: the producers known at that offset."""
    for entry in decode_snapshot(path.read_bytes(), str(path)):
        yield {"type": "producer", **entry._asdict()}


def dump_leader_epochs(path: Path) -> Iterator[Entry]:
    """Yield the entries of `leader-epoch-checkpoint`: each epoch and its start offset."""
    for words in parse_checkpoint(path.read_text(errors="replace"), str(path)):
        epoch, offset = _numbers(path, words, 2)
        yield {"type": "leader_epoch", "epoch": epoch, "start_offset": offset}


def dump_offset_checkpoint(path: Path) -> Iterator[Entry]:
    """Yield the entries of a checkpoint of a log directory: partition and offset."""
    if path.name == LEADER_EPOCH_CHECKPOINT:
        yield from dump_leader_epochs(path)
        return
    for words in parse_checkpoint(path.read_text(errors="replace"), str(path)):
        partition, offset = _numbers(path, words[1:], 2)
        yield {"type": "checkpoint", "topic": words[0], "partition": partition, "offset": offset}


def _numbers(path: Path, words: list[str], count: int) -> list[int]:
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise CorruptFileError(path, f"malformed line {' '.join(words)!r}")
    return numbers


def dump_properties(path: Path) -> Iterator[Entry]:
    """Yield the lines of `meta.properties` or `partition.metadata`: name and value."""
    separator = ":" if path.name == "partition.metadata" else "="
    for line in path.read_text(errors="replace").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, found, value = line.partition(separator)
        if not found:
            raise CorruptFileError(path, f"malformed line {line!r}")
        yield {"type": "property", "name": name.strip(), "value": value.strip()}

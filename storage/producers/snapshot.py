"""`<offset>.snapshot`: the producer state of a partition when its log end offset was `<offset>`.

Big-endian: version 1 (int16), CRC-32C of the bytes after it (uint32), number of entries (int32), entries of 46 bytes:

    producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32
    timestamp int64 | coordinator epoch int32 | first offset of the open transaction int64 (-1: none)

Only the newest of a producer's last five batches is stored. Last sequence and offset are -1 (delta 0) if only a
transaction marker is known.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from storage.errors import CorruptFileError

SNAPSHOT_SUFFIX = ".snapshot"

_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


class SnapshotEntry(NamedTuple):
    """One producer in a snapshot; the fields are those of the file."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode_snapshot(entries: Sequence[SnapshotEntry]) -> bytes:
    """Return the bytes of a snapshot file."""
    body = struct.pack(">i", len(entries)) + b"".join(_ENTRY.pack(*entry) for entry in entries)
    return struct.pack(">hI", _VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> list[SnapshotEntry]:
    """Return the entries of a snapshot file. Raises CorruptFileError, which names `path` and the broken rule."""
    if len(data) < _HEADER.size:
        raise CorruptFileError(path, f"{len(data)} bytes are too few for a snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptFileError(path, f"unknown version {version}")
    computed = crc32c(data[_CRC_FROM:])
    if crc != computed:
        raise CorruptFileError(path, f"stored crc {crc}, computed crc {computed}")
    if _HEADER.size + count * _ENTRY.size != len(data):
        raise CorruptFileError(path, f"{count} entries do not fill {len(data)} bytes")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]

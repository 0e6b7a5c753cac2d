"""Check the records of a Produce request for one partition by the request's version.

Up to version 2, the records are a message set of any magic, as old clients send them. Since version 3, they are exactly
one record batch of magic 2; zstd is allowed since version 7 (KIP-110). Refused records never reach a log.
"""

from __future__ import annotations

import struct

from broker.errors import RequestError
from protocol.buffer import Buffer
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.record_batch import LOG_OVERHEAD

FIRST_VERSION_WITH_BATCHES = 3
FIRST_VERSION_WITH_ZSTD = 7

_unpack_what_matters = struct.Struct(">i4xb4xh").unpack_from  # length, magic, attributes
_LENGTH_POSITION = 8
_ATTRIBUTES_END = 23
_ZSTD = int(CompressionType.ZSTD)
_MIN_LENGTH = 14  # Kafka's limit: the header of a message of magic 0 after offset and length
_MAGIC_2 = 2
_CODEC = 0x07
_TRANSACTIONAL = 0x10


def check_records(records: Buffer | None, version: int, *, transactional: bool) -> memoryview:
    """Return the records if the version of the request allows them; `transactional`: it has a transactional id.

    Raises InvalidRecordError (also for null), CorruptRecordError, UnsupportedCompressionError, and RequestError for a
    transactional batch in a request without a transactional id.
    """
    if records is None:
        raise InvalidRecordError("Produce without records")
    if not isinstance(records, memoryview):
        records = memoryview(records)
    if version < FIRST_VERSION_WITH_BATCHES:
        return records
    size = len(records)
    if size >= _ATTRIBUTES_END:
        length, magic, attributes = _unpack_what_matters(records, _LENGTH_POSITION)
        if magic == _MAGIC_2 and length + LOG_OVERHEAD == size:
            if not attributes & (_TRANSACTIONAL | _ZSTD):
                return records
            if (attributes & _CODEC != _ZSTD or version >= FIRST_VERSION_WITH_ZSTD) and (
                transactional or not attributes & _TRANSACTIONAL
            ):
                return records
        if magic == _MAGIC_2 and attributes & _TRANSACTIONAL and not transactional:
            raise RequestError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch of a transaction without a transactional id"
            )
    _check_batches(records, version)
    return records


def _check_batches(records: memoryview, version: int) -> None:
    length, magic = _batch_at(records, 0)
    if length == 0:
        raise InvalidRecordError(f"Produce v{version} needs a record batch for each partition")
    if magic != _MAGIC_2:
        raise InvalidRecordError(f"Produce v{version} takes record batches of magic 2 only, not {magic}")
    attributes = int.from_bytes(records[21:23], "big")
    if attributes & _CODEC == CompressionType.ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionError(f"Produce v{version} cannot carry zstd")
    if _batch_at(records, length)[0]:
        raise InvalidRecordError(f"Produce v{version} takes one record batch for each partition only")


def _batch_at(records: memoryview, position: int) -> tuple[int, int]:
    """Return (size, magic) of the complete batch or message at `position`; size 0 if there is none."""
    rest = len(records) - position
    if rest <= LOG_OVERHEAD + 4:
        return 0, 0
    length = int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
    if length < _MIN_LENGTH:
        raise CorruptRecordError(position, f"a record batch of {length} bytes")
    magic = records[position + 16]
    if magic > _MAGIC_2:
        raise CorruptRecordError(position + 16, f"magic {magic}")
    size = length + LOG_OVERHEAD
    return (size, magic) if size <= rest else (0, magic)

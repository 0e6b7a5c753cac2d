"""The records of batches as columns: the position of each key and value in the bytes, decoded with numpy.

A record begins where the record before it ends, so lengths are read in a loop, one varint each. Only runs of records of
equal size are found at once. Every other number is read for all records together, two bytes of it by one lookup in a
table. Keys and values are not copied: a column consists of starts and lengths.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from protocol.buffer import Buffer
from protocol.errors import InvalidRecordError
from protocol.record import long_varint
from protocol.record_batch import BATCH_HEADER_SIZE, COMPRESSION_MASK, RecordBatch, TimestampType

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MAX_VARINT_BITS: Final = 64
_COMPILING_PAYS_FROM: Final = 4_000_000
"""After this many records in a process the compiled decoder is loaded: numba saves on them as much as loading costs."""
_SMALLEST_RECORD: Final = 7
_SHORTEST_RUN: Final = 16
"""A batch with a shorter run of records of equal size is decoded record by record, as short runs do not pay."""


def _two_byte_tables() -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """For all pairs of bytes (little-endian): the zigzag varint at their start, and its size; 3 if it is longer."""
    word = np.arange(1 << 16, dtype=np.uint32)
    first_goes_on, second_goes_on = word & 0x80 != 0, word & 0x8000 != 0
    raw = np.where(first_goes_on, word & 0x7F | (word >> 8 & 0x7F) << 7, word & 0x7F).astype(np.int32)
    size = 1 + first_goes_on + (first_goes_on & second_goes_on)
    return ((raw >> 1) ^ -(raw & 1)).astype(np.int16), size.astype(np.uint8)


_VALUES, _SIZES = _two_byte_tables()
_VALUES_OF_ONE_BYTE: Final = _VALUES[:0x80].astype(np.int64)


class RecordColumns:
    """All records of some batches.

    `data` contains their bytes, decompressed; if no batch is compressed, it is `buffer`, in which the batches begin at
    `positions`. `offsets`, `timestamps` (ms), `timestamp_types`, `key_starts`, `key_lengths`, `value_starts`,
    `value_lengths` (-1 for null), `header_counts`, `header_starts` (the position of the count) and `ends` have one
    element per record. Raises InvalidRecordError if a record is malformed, and the errors of
    `RecordBatch.records_data`.
    """

    __slots__ = (
        "_batches",
        "_timestamp_deltas",
        "data",
        "ends",
        "header_counts",
        "header_starts",
        "key_lengths",
        "key_starts",
        "offsets",
        "value_lengths",
        "value_starts",
    )

    def __init__(self, batches: Sequence[RecordBatch], buffer: Buffer, positions: Sequence[int]) -> None:
        if any(batch.attributes & COMPRESSION_MASK for batch in batches):
            payloads = [batch.records_data() for batch in batches]
            ends = list(accumulate(map(len, payloads)))
            self.data: Buffer = b"".join(payloads)
        else:
            payloads = [batch.buffer[BATCH_HEADER_SIZE:] for batch in batches]
            ends = [position + batch.size_bytes for position, batch in zip(positions, batches, strict=True)]
            self.data = buffer
        self._batches = batches
        spans = [(end - len(payload), end) for payload, end in zip(payloads, ends, strict=True)]
        try:
            self._read(spans)
        except (IndexError, InvalidRecordError):
            for batch in batches:
                for _ in batch.records():  # raises an error that names the record and the fault
                    pass
            raise InvalidRecordError("malformed records") from None

    @property
    def timestamps(self) -> Integers:
        by_broker = self._of_batch([batch.max_timestamp for batch in self._batches])
        by_producer = self._timestamp_deltas + self._of_batch([batch.base_timestamp for batch in self._batches])
        types = self.timestamp_types
        return np.where(types == TimestampType.LOG_APPEND_TIME, by_broker, by_producer) if types.any() else by_producer

    @property
    def timestamp_types(self) -> Integers:
        return self._of_batch([int(batch.timestamp_type) for batch in self._batches])

    def _of_batch(self, values: Sequence[int]) -> Integers:
        """Repeat each batch's value for each of its records."""
        return np.repeat(np.array(values, dtype=np.int64), [batch.record_count for batch in self._batches])

    def _read(self, spans: Sequence[tuple[int, int]]) -> None:
        buffer = np.frombuffer(self.data, dtype=np.uint8)
        counts = [batch.record_count for batch in self._batches]
        (
            self._timestamp_deltas,
            offsets,
            self.key_lengths,
            self.key_starts,
            self.value_lengths,
            self.value_starts,
            self.header_starts,
            self.header_counts,
            self.ends,
        ) = _decoder(sum(counts))(buffer, spans, counts)
        self.offsets = offsets + self._of_batch([batch.base_offset for batch in self._batches])


Decoded = tuple[Integers, ...]
"""Timestamp deltas, offset deltas, key lengths and starts, value lengths and starts, positions of the header counts,
header counts, ends.
"""
Decoder = Callable[[Bytes, Sequence[tuple[int, int]], Sequence[int]], Decoded]

_decoded_records = 0
_compiled: Decoder | None = None


def _decoder(count: int) -> Decoder:
    """The compiled decoder if numba is installed and this process has decoded many records, else numpy's."""
    global _decoded_records, _compiled
    before, _decoded_records = _decoded_records, _decoded_records + count
    if before < _COMPILING_PAYS_FROM <= _decoded_records and find_spec("numba") is not None:
        _compiled = decode_compiled
    return _compiled or decode_by_numpy


def decode_compiled(buffer: Bytes, spans: Sequence[tuple[int, int]], counts: Sequence[int]) -> Decoded:
    """Decode the batches at these spans with `client.arrow.compiled_columns`. Raises InvalidRecordError."""
    from client.arrow.compiled_columns import COLUMNS, fill  # numba is optional, and takes 0.3 s and 80 MB

    for (begin, end), count in zip(spans, counts, strict=True):
        if not 0 <= count <= (end - begin) // _SMALLEST_RECORD:  # before memory is allocated
            raise InvalidRecordError(f"{count} records in {end - begin} bytes")
    out = np.empty((COLUMNS, sum(counts)), dtype=np.int64)
    places = np.array(spans, dtype=np.int64).reshape(-1, 2)
    if not fill(buffer, places, np.array(counts, dtype=np.int64), out):
        raise InvalidRecordError("malformed records")
    return tuple(out)


def decode_by_numpy(buffer: Bytes, spans: Sequence[tuple[int, int]], counts: Sequence[int]) -> Decoded:
    """Decode the batches at these spans with numpy. Raises IndexError, InvalidRecordError."""
    words = np.ndarray((max(len(buffer) - 1, 0),), dtype="<u2", buffer=buffer, strides=(1,))
    lengths, at = _short_varints(buffer, words, _begins(buffer.data, buffer, spans, counts))
    ends = at + lengths
    # Skip the attributes (one byte), which have no meaning yet.
    timestamps, at = _short_varints(buffer, words, at + 1)
    offsets, at = _short_varints(buffer, words, at)
    key_lengths, key_starts = _short_varints(buffer, words, at)
    at = key_starts + np.maximum(key_lengths, 0)
    value_lengths, value_starts = _short_varints(buffer, words, at)
    header_starts = value_starts + np.maximum(value_lengths, 0)
    # The last count may be the last byte of the buffer.
    header_counts, at = _varints(buffer, header_starts)
    if header_counts.any():
        is_wrong = (at > ends) | ((at != ends) & (header_counts == 0)) | (header_counts < 0)
    else:
        is_wrong = at != ends
    if is_wrong.any() or (lengths < 0).any():
        raise InvalidRecordError("the length of a record does not match its content")
    return (
        timestamps,
        offsets,
        key_lengths,
        key_starts,
        value_lengths,
        value_starts,
        header_starts,
        header_counts,
        ends,
    )


def _begins(data: Buffer, buffer: Bytes, spans: Sequence[tuple[int, int]], counts: Sequence[int]) -> Integers:
    """The position of each record's length in the batches at these spans. Raises IndexError, InvalidRecordError."""
    parts: list[Integers] = []
    for (position, end), count in zip(spans, counts, strict=True):
        left = count
        while left and len(run := _run(data, buffer, position, end, left)) >= _SHORTEST_RUN:
            parts.append(run)
            left -= len(run)
            position = int(run[-1]) + int(run[1] - run[0])
        begins: list[int] = []
        note = begins.append
        for _ in range(left):
            note(position)
            number = data[position]
            if number < 0x80:
                position += 1 + (number >> 1)
            elif data[position + 1] < 0x80:
                position += 2 + ((number & 0x7F | data[position + 1] << 7) >> 1)
            else:
                number, position = long_varint(data, position + 1, number)
                position += number >> 1
        if begins:
            parts.append(np.array(begins, dtype=np.int64))
        if position != end:
            raise InvalidRecordError(f"{count} records end at byte {position} instead of {end}")
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _run(data: Buffer, buffer: Bytes, position: int, end: int, most: int) -> Integers:
    """The starts of consecutive records of equal size from `position` on; empty if the first length has three bytes.

    If the bytes of the first record's length also stand at the start of a second record of this size, the second record
    has this size; and so on.
    """
    first = data[position]
    if first < 0x80:
        size = 1 + (first >> 1)
    elif data[position + 1] < 0x80:
        size = 2 + ((first & 0x7F | data[position + 1] << 7) >> 1)
    else:
        return np.zeros(0, dtype=np.int64)
    most = min(most, (end - position) // size)
    at = np.arange(position, position + most * size, size)
    is_same = buffer[at] == first
    if first >= 0x80:
        is_same &= buffer[at + 1] == data[position + 1]
    return at if is_same.all() else at[: int(is_same.argmin())]


def _short_varints(buffer: Bytes, words: NDArray[np.uint16], positions: Integers) -> tuple[Integers, Integers]:
    """Like `_varints`, but no varint may start at the buffer's last byte. `words`: the two bytes at each position."""
    byte = buffer[positions]
    if not len(byte) or byte.max() < 0x80:
        return _VALUES_OF_ONE_BYTE.take(byte), positions + 1
    word = words[positions].astype(np.intp)
    size = _SIZES.take(word)
    number = _VALUES.take(word).astype(np.int64)
    behind = positions + size
    if size.max() == 3:
        longer = np.flatnonzero(size == 3)
        number[longer], behind[longer] = _varints(buffer, positions[longer])
    return number, behind


def _varints(buffer: Bytes, positions: Integers) -> tuple[Integers, Integers]:
    """The zigzag varints at these positions, and the positions after them. Raises IndexError at the buffer's end."""
    byte = buffer[positions]
    if not len(byte) or byte.max() < 0x80:
        return _VALUES_OF_ONE_BYTE.take(byte), positions + 1
    number = (byte & 0x7F).astype(np.uint64)
    behind = positions + 1
    rest = np.flatnonzero(byte > 0x7F)
    shift = 7
    while len(rest):
        if shift >= _MAX_VARINT_BITS:
            raise InvalidRecordError("a varint has too many bits")
        byte = buffer[behind[rest]]
        number[rest] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[rest] += 1
        rest = rest[byte > 0x7F]
        shift += 7
    signed = (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64)
    return signed, behind

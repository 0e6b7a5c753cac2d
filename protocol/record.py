"""A record, and the decoding of the records in a version 2 batch.

The layout of a record (all numbers are zigzag varints, except the attributes):

    length          bytes that follow
    attributes      int8, unused, 0
    timestamp delta from the batch's base timestamp
    offset delta    from the batch's base offset
    key length      negative for null, then the key
    value length    negative for null, then the value
    header count    then per header: name length, name (UTF-8), value length (negative for null), value

Decoding is on the hot path of client and broker, so varints of one and two bytes are read inline; longer ones are read
by a function. Sources: KIP-98 and KIP-82, the protocol guide's page on record batches.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar

from protocol.buffer import Buffer
from protocol.errors import InvalidRecordError

NO_TIMESTAMP: Final = -1
INT32_MAX: Final = 0x7FFFFFFF
INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
INT64_MIN: Final = -0x8000000000000000

Header = tuple[str, bytes | None]
"""A record header: name and value. Names may be repeated; the order is significant."""

NO_HEADERS: Final[tuple[Header, ...]] = ()


class Record(NamedTuple):
    """A record with its absolute offset and timestamp (ms since the epoch, -1 for none). Key and value may be None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = NO_HEADERS


R = TypeVar("R", bound=tuple[Any, ...])


def read_records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, log_append_time: int | None = None
) -> Iterator[Record]:
    """Yield the `count` records in `data`.

    If `log_append_time` is given, it is the timestamp of every record. Raises InvalidRecordError at the first record
    that contradicts its own length, and if `count` records do not end exactly at the end of `data`.
    """
    return read_records_as(Record, (), data, count, base_offset, base_timestamp, log_append_time)


def read_records_as(
    kind: type[R],
    first_fields: tuple[Any, ...],
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    log_append_time: int | None,
) -> Iterator[R]:
    """Like `read_records`, but yield records of type `kind`: a named tuple of `first_fields` and Record's fields."""
    make = tuple.__new__  # the named tuple's own `__new__` takes twice as long
    size = len(data)
    low, high = INT64_MIN - base_timestamp, INT64_MAX - base_timestamp
    position = 0
    for index in range(count):
        try:
            number, position = data[position], position + 1
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            end = position + (number >> 1)
            if number & 1 or end > size:
                raise InvalidRecordError(f"record {index} of length {unzigzag(number)} ends beyond {size} bytes")
            # Skip one byte: the attributes, which are not used yet.
            number, position = data[position + 1], position + 2
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number, 64)
            timestamp = number >> 1 ^ -(number & 1)
            if not low <= timestamp <= high:
                timestamp = wrap_int64(timestamp + base_timestamp) - base_timestamp
            timestamp += base_timestamp
            number, position = data[position], position + 1
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            offset = base_offset + (number >> 1 ^ -(number & 1))
            number, position = data[position], position + 1
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            # Null is -1, which is 1 in zigzag: shifted right it is 0, so no branch is needed.
            start, position = position, position + (number >> 1)
            key = None if number & 1 else data[start:position]
            number, position = data[position], position + 1
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            start, position = position, position + (number >> 1)
            value = None if number & 1 else data[start:position]
            if data[position]:
                headers, position = read_headers(data, position, end)
            else:
                headers, position = NO_HEADERS, position + 1
        except IndexError:
            raise InvalidRecordError(f"record {index} runs over the end of {size} bytes") from None
        if position != end:
            raise InvalidRecordError(f"record {index} ends at byte {position}, but by its length at byte {end}")
        if log_append_time is not None:
            timestamp = log_append_time
        yield make(kind, first_fields + (offset, timestamp, key, value, headers))  # noqa: RUF005  # this is faster
    if position != size:
        raise InvalidRecordError(f"{size - position} bytes are left after {count} records")


def wrap_int64(number: int) -> int:
    """Wrap `number` to 64 bits: Kafka's sums of timestamps wrap around."""
    return (number - INT64_MIN & 0xFFFFFFFFFFFFFFFF) + INT64_MIN


def unzigzag(number: int) -> int:
    """Return the signed number with the zigzag encoding `number`."""
    return number >> 1 ^ -(number & 1)


def long_varint(data: Buffer, position: int, first: int, bits: int = 32) -> tuple[int, int]:
    """Read the rest of a varint after its `first` byte; return the number, still in zigzag, and the position after it.

    Raises InvalidRecordError for a number of more than `bits` bits, IndexError at the end of the data.
    """
    number = first & 0x7F
    for shift in range(7, bits, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if byte > 0x7F or number >> bits:
        raise InvalidRecordError(f"varint that ends at byte {position} has more than {bits} bits")
    return number, position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the decoded 32-bit varint at `position`, and the position after it."""
    number = data[position]
    position += 1
    if number > 0x7F:
        number, position = long_varint(data, position, number)
    return number >> 1 ^ -(number & 1), position


def read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    """Read the header count at `position` and the headers, which must end at or before `end`.

    Return the headers and the position after them.
    """
    count, position = _read_varint(data, position)
    # A header has at least two bytes: a huge count is refused before anything is created.
    if count < 0 or count * 2 > end - position:
        raise InvalidRecordError(f"{count} headers do not fit into {end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        length, position = _read_varint(data, position)
        if length < 0 or position + length > end:
            raise InvalidRecordError(f"header name of {length} bytes does not fit into {end - position} bytes")
        # As in Kafka's clients, bytes that are not UTF-8 must not make the record unreadable.
        name = data[position : position + length].decode("utf-8", "replace")
        position += length
        length, position = _read_varint(data, position)
        if length < 0:
            headers.append((name, None))
            continue
        if position + length > end:
            raise InvalidRecordError(f"header value of {length} bytes does not fit into {end - position} bytes")
        headers.append((name, data[position : position + length]))
        position += length
    return tuple(headers), position

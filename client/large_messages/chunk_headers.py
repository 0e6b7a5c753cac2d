"""The format of a message that is split into chunks: ordinary records with more headers.

    ottla-chunk-message   16 bytes that identify the message, the same in all its chunks
    ottla-chunk-index     the number of the chunk, from 0, in decimal digits
    ottla-chunk-count     the number of chunks, in decimal digits
    ottla-chunk-size      bytes of the whole value, in decimal digits
    ottla-chunk-crc       CRC-32C of the whole value, in decimal digits

All chunks have the message's key and are in one partition, in order; chunks of other messages may stand between them.
The first chunk also has the message's own headers. A record without chunk headers is a whole message.
"""

from typing import Final, NamedTuple

from client.consumer.fetched import ConsumerRecord
from protocol.record import Header

MESSAGE: Final = "ottla-chunk-message"
INDEX: Final = "ottla-chunk-index"
COUNT: Final = "ottla-chunk-count"
SIZE: Final = "ottla-chunk-size"
CRC: Final = "ottla-chunk-crc"
PREFIX: Final = "ottla-chunk-"


class ChunkHeaders(NamedTuple):
    """The headers of one chunk."""

    message: bytes
    number: int
    total: int
    size: int
    crc: int

    def encode(self) -> list[tuple[str, bytes]]:
        """The headers of the record."""
        numbers = ((INDEX, self.number), (COUNT, self.total), (SIZE, self.size), (CRC, self.crc))
        return [(MESSAGE, self.message), *((name, b"%d" % number) for name, number in numbers)]


def chunk_headers(record: ConsumerRecord) -> ChunkHeaders | None:
    """The chunk headers of a record; None if it is not a chunk, or if they are invalid."""
    if not record.headers:
        return None
    found = {name: value for name, value in record.headers if name.startswith(PREFIX)}
    message = found.get(MESSAGE)
    if not message:
        return None
    numbers = []
    for name in (INDEX, COUNT, SIZE, CRC):
        digits = found.get(name) or b""
        if not digits.isdigit() or len(digits) > 18:
            return None
        numbers.append(int(digits))
    index, count, size, crc = numbers
    if not 0 <= index < count:
        return None
    return ChunkHeaders(message, index, count, size, crc)


def without_chunk_headers(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """The message's own headers."""
    return tuple(header for header in headers if not header[0].startswith(PREFIX))

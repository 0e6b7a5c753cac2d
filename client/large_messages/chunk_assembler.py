"""Assembles messages from chunks (`chunk_headers`). No I/O, no clock.

The chunks of one message are in order, because the producer wrote them in order. So a missing chunk never arrives: the
message is given up at the gap. A chunk that was seen before (after a repeated send or read) is ignored.

A message is given up, and `on_given_up` is called, if

- its first chunk was not seen, because reading began after it or because it was deleted;
- a chunk is missing, or the size or the checksum of the whole message is wrong;
- the message does not fit into `max_buffered_bytes`; if several messages together do not fit, the oldest is given up;
- no chunk arrived within the next `max_gap` offsets of its partition: its producer died before the last chunk.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from crc32c import crc32c

from client.consumer.fetched import ConsumerRecord
from client.large_messages.chunk_headers import ChunkHeaders, chunk_headers, without_chunk_headers
from client.options import check_range
from client.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

# How many ended messages a partition remembers, as more of their chunks may arrive by repetition.
REMEMBERED: Final = 1_000


class GivenUp(NamedTuple):
    """A message that will not be returned. `offset` is that of the record at which the assembler gave it up."""

    partition: TopicPartition
    message: bytes
    offset: int
    reason: str


class _Partial:
    """A message with some of its chunks."""

    __slots__ = ("first", "headers", "last_offset", "parts", "size")

    def __init__(self, first: ConsumerRecord, headers: ChunkHeaders) -> None:
        self.first = first
        self.headers = headers
        self.parts: list[bytes] = []
        self.size = 0
        self.last_offset = first.offset


class _Partition:
    """The state of one partition."""

    __slots__ = ("over", "partials", "spans")

    def __init__(self) -> None:
        self.partials: OrderedDict[bytes, _Partial] = OrderedDict()
        self.over: OrderedDict[bytes, None] = OrderedDict()
        # First and last offsets of the returned messages, until `done` is called with a higher offset.
        self.spans: list[tuple[int, int]] = []


def log_given_up(given_up: GivenUp) -> None:
    """Log the message; the default of `on_given_up`."""
    partition, message, offset, reason = given_up
    logger.warning("%s offset %d: message %s given up: %s", partition, offset, message.hex(), reason)


class ChunkAssembler:
    """Assembles messages: pass the records to `add`, those of one partition in order.

    `max_buffered_bytes`: the limit for chunks that wait for the rest of their message, in all partitions together.
    """

    def __init__(
        self,
        *,
        max_buffered_bytes: int = 64 * 1024 * 1024,
        max_gap: int = 10_000,
        on_given_up: Callable[[GivenUp], None] = log_given_up,
    ) -> None:
        check_range("max_buffered_bytes", max_buffered_bytes, 1)
        check_range("max_gap", max_gap, 1)
        self._max_buffered_bytes = max_buffered_bytes
        self._max_gap = max_gap
        self._on_given_up = on_given_up
        self._partitions: dict[TopicPartition, _Partition] = {}
        # All incomplete messages, oldest first.
        self._ages: OrderedDict[tuple[TopicPartition, bytes], _Partial] = OrderedDict()
        self.buffered_bytes = 0

    def add(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """Return the record itself if it is not a chunk, the whole message if it is the last chunk, else None.

        A message has the offset of its last chunk and the timestamp of its first. Raises TypeError if a deserializer
        has changed the value of a chunk.
        """
        name = TopicPartition(record.topic, record.partition)
        partition = self._partitions.get(name)
        if partition is not None:
            self._give_up_silent(name, partition, record.offset)
        headers = chunk_headers(record)
        if headers is None:
            return record
        if not isinstance(record.value, bytes):
            raise TypeError("chunks must be bytes: wrap a consumer without value_deserializer")
        if partition is None:
            partition = self._partitions[name] = _Partition()
        partial = self._partial(name, partition, record, headers)
        if partial is None or headers.number < len(partial.parts):
            return None
        if headers.number > len(partial.parts) or headers[2:] != partial.headers[2:]:
            self._give_up(name, partial, record.offset, f"chunk {len(partial.parts)} of {headers.total} is missing")
            return None
        partial.parts.append(record.value)
        partial.size += len(record.value)
        partial.last_offset = record.offset
        self.buffered_bytes += len(record.value)
        if len(partial.parts) == headers.total:
            return self._whole(name, partition, partial, record)
        while self.buffered_bytes > self._max_buffered_bytes:
            (owner, _), oldest = next(iter(self._ages.items()))
            self._give_up(owner, oldest, record.offset, f"more than {self._max_buffered_bytes} bytes are waiting")
        return None

    def _partial(
        self, name: TopicPartition, partition: _Partition, record: ConsumerRecord, headers: ChunkHeaders
    ) -> _Partial | None:
        """The incomplete message of a chunk; None if the message has ended."""
        partial = partition.partials.get(headers.message)
        if partial is None and headers.message not in partition.over:
            partial = _Partial(record, headers)
            partition.partials[headers.message] = self._ages[name, headers.message] = partial
            reason = None
            if headers.number:
                reason = f"its first chunk was not seen, this is {headers.number} of {headers.total}"
            elif headers.size > self._max_buffered_bytes:
                reason = f"it has {headers.size} bytes, max_buffered_bytes is {self._max_buffered_bytes}"
            if reason is not None:
                self._give_up(name, partial, record.offset, reason)
                return None
        return partial

    def _whole(
        self, name: TopicPartition, partition: _Partition, partial: _Partial, last: ConsumerRecord
    ) -> ConsumerRecord | None:
        value = b"".join(partial.parts)
        if len(value) != partial.headers.size or crc32c(value) != partial.headers.crc:
            self._give_up(name, partial, last.offset, "size or checksum is wrong")
            return None
        self._forget(name, partial)
        partition.spans.append((partial.first.offset, last.offset))
        headers = without_chunk_headers(partial.first.headers)
        return partial.first._replace(offset=last.offset, value=value, headers=headers)

    def _give_up_silent(self, name: TopicPartition, partition: _Partition, offset: int) -> None:
        for partial in list(partition.partials.values()):
            if offset - partial.last_offset > self._max_gap:
                self._give_up(name, partial, offset, f"no chunk for {self._max_gap} offsets")

    def _give_up(self, name: TopicPartition, partial: _Partial, offset: int, reason: str) -> None:
        self._forget(name, partial)
        self._on_given_up(GivenUp(name, partial.headers.message, offset, reason))

    def _forget(self, name: TopicPartition, partial: _Partial) -> None:
        """Remove a message that is complete or given up."""
        message, partition = partial.headers.message, self._partitions[name]
        del partition.partials[message], self._ages[name, message]
        self.buffered_bytes -= partial.size
        partition.over[message] = None
        if len(partition.over) > REMEMBERED:
            partition.over.popitem(last=False)

    # ---- positions

    def safe_offset(self, partition: TopicPartition, offset: int) -> int:
        """The offset to start from so that no message is lost, if all records below `offset` are handled: `offset`, or
        the first chunk of a message that is incomplete, or complete and not handled.
        """
        found = self._partitions.get(partition)
        if found is None:
            return offset
        waiting = (partial.first.offset for partial in found.partials.values())
        return min((offset, *waiting, *(first for first, last in found.spans if last >= offset)))

    def done(self, partition: TopicPartition, offset: int) -> None:
        """Note that all records below `offset` are handled, and that this is committed."""
        found = self._partitions.get(partition)
        if found is not None:
            found.spans = [span for span in found.spans if span[1] >= offset]

    def forget(self, partition: TopicPartition) -> None:
        """Drop the state of a partition: reading ends, or continues at another offset."""
        found = self._partitions.pop(partition, None)
        for message, partial in () if found is None else found.partials.items():
            del self._ages[partition, message]
            self.buffered_bytes -= partial.size

"""Makes whole messages of chunks (`chunk_headers`). No I/O, no clock.

Chunks of one message are in order, as the producer wrote them so. Hence one that is missing never comes: the message is
given up at the gap. A chunk that has been seen already (a repeated send, a repeated read) is passed over.

A message is given up, and `on_given_up` told, when

- its first chunk was not seen: reading began behind it, or it has been deleted;
- a chunk is missing, or the whole does not have the size and checksum that it should have;
- it does not fit into `max_buffered_bytes`; where several together do not, the oldest goes first;
- `max_gap` more offsets of its partition have gone by without another chunk: its producer has died in the middle.
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

# Messages that are over, of which more chunks may come by repetition.
REMEMBERED: Final = 1_000


class GivenUp(NamedTuple):
    """A message that will not be handed out; `offset` is that of the chunk at which this was known."""

    partition: TopicPartition
    message: bytes
    offset: int
    reason: str


class _Partial:
    """A message of which some is here."""

    __slots__ = ("first", "headers", "last_offset", "parts", "size")

    def __init__(self, first: ConsumerRecord, headers: ChunkHeaders) -> None:
        self.first = first
        self.headers = headers
        self.parts: list[bytes] = []
        self.size = 0
        self.last_offset = first.offset


class _Partition:
    """What is remembered of one partition."""

    __slots__ = ("over", "partials", "spans")

    def __init__(self) -> None:
        self.partials: OrderedDict[bytes, _Partial] = OrderedDict()
        self.over: OrderedDict[bytes, None] = OrderedDict()
        # First and last offset of the messages handed out, until it is said that they are done with.
        self.spans: list[tuple[int, int]] = []


def log_given_up(given_up: GivenUp) -> None:
    """The default of `on_given_up`."""
    partition, message, offset, reason = given_up
    logger.warning("%s offset %d: message %s given up: %s", partition, offset, message.hex(), reason)


class ChunkAssembler:
    """`add` the records of any partitions as they come, each partition in order.

    `max_buffered_bytes`: values of chunks that wait for the rest of their message, of all partitions.
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
        # All partials, the oldest first.
        self._ages: OrderedDict[tuple[TopicPartition, bytes], _Partial] = OrderedDict()
        self.buffered_bytes = 0

    def add(self, record: ConsumerRecord) -> ConsumerRecord | None:
        """The record itself where it is no chunk; the whole message where it is the last one; else None.

        The message has the offset of its last chunk, the timestamp of its first one. Raises TypeError where a
        deserializer has made something else of the value.
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
        """That which the chunk belongs to; None where its message is over."""
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
        """It is over."""
        message, partition = partial.headers.message, self._partitions[name]
        del partition.partials[message], self._ages[name, message]
        self.buffered_bytes -= partial.size
        partition.over[message] = None
        if len(partition.over) > REMEMBERED:
            partition.over.popitem(last=False)

    # ---- positions

    def safe_offset(self, partition: TopicPartition, offset: int) -> int:
        """Where to begin for that no message is lost, if all records below `offset` are done with: there, or at the
        first chunk of a message that is not complete, or is, but not done with.
        """
        found = self._partitions.get(partition)
        if found is None:
            return offset
        waiting = (partial.first.offset for partial in found.partials.values())
        return min((offset, *waiting, *(first for first, last in found.spans if last >= offset)))

    def done(self, partition: TopicPartition, offset: int) -> None:
        """All records below `offset` are done with, and that is not taken back."""
        found = self._partitions.get(partition)
        if found is not None:
            found.spans = [span for span in found.spans if span[1] >= offset]

    def forget(self, partition: TopicPartition) -> None:
        """Reading begins somewhere else, or ends."""
        found = self._partitions.pop(partition, None)
        for message, partial in () if found is None else found.partials.items():
            del self._ages[partition, message]
            self.buffered_bytes -= partial.size

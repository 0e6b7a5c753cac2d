"""A batch whose records were passed as columns, for producers of very many records: no object is made for each record.

The batch is full from the beginning, and has a single future.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from operator import add
from typing import NamedTuple

from client.errors import KafkaError
from client.producer.accumulator import RECORD_BYTES, RECORD_OVERHEAD, Batch, RecordMetadata, size_of_headers, too_large
from client.topic_partition import TopicPartition
from protocol.record import Header
from protocol.record_batch import BATCH_HEADER_SIZE
from protocol.record_batch_builder import RecordBatchBuilder


class Columns(NamedTuple):
    """Columns of records for one partition, of equal length; `keys` and `headers` may be None. All records have the
    timestamp `timestamp_ms`; `size` is what they are charged to the buffer memory.
    """

    timestamp_ms: int
    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[Header]] | None
    size: int


def split_columns(
    timestamp_ms: int,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[Header]] | None,
    batch_size: int,
    max_request_size: int,
) -> Iterator[Columns]:
    """Split records into batches of at most `batch_size` bytes, or of one larger record. Raises before the first batch:
    RecordTooLargeError if a record exceeds `max_request_size`, TypeError for a key or value that is not bytes or None.
    """
    sizes = _lengths("value", values)
    if keys is not None:
        sizes = list(map(add, sizes, _lengths("key", keys)))
    if headers is not None:
        sizes = list(map(add, sizes, map(size_of_headers, headers)))
    if sizes and max(sizes) + RECORD_OVERHEAD > max_request_size:
        raise too_large(max(sizes) + RECORD_OVERHEAD, max_request_size)
    ends = list(accumulate(size + RECORD_BYTES for size in sizes))
    limit = batch_size - BATCH_HEADER_SIZE
    start, before = 0, 0
    while start < len(values):
        end = max(bisect_right(ends, before + limit), start + 1)
        part = slice(start, end)
        size = ends[end - 1] - before + (RECORD_OVERHEAD - RECORD_BYTES) * (end - start)
        yield Columns(
            timestamp_ms,
            None if keys is None else keys[part],
            values[part],
            None if headers is None else headers[part],
            size,
        )
        start, before = end, ends[end - 1]


def _lengths(name: str, column: Sequence[bytes | None]) -> list[int]:
    if not set(map(type, column)) <= {bytes, type(None)}:
        raise TypeError(f"each {name} must be bytes or None")
    return [0 if one is None else len(one) for one in column]


class ColumnBatch(Batch):
    """A batch of columns. `written` is completed when the batch is acknowledged, or has its error if it fails."""

    __slots__ = ("_columns", "_count", "written")

    def __init__(self, builder: RecordBatchBuilder, columns: Columns) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(builder, loop.time())
        self.size = columns.size
        self.written: asyncio.Future[None] = loop.create_future()
        self._columns = columns  # until `build`
        self._count = len(columns.values)

    @property
    def count(self) -> int:
        """The number of records."""
        return self._count

    def record_futures(self) -> "Sequence[asyncio.Future[RecordMetadata]]":
        """Create a future for each record; when all are done, `written` is completed."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[RecordMetadata]] = [loop.create_future() for _ in range(self._count)]
        asyncio.gather(*futures, return_exceptions=True).add_done_callback(self._parts_ended)
        return futures

    def _parts_ended(self, gathered: "asyncio.Future[list[RecordMetadata | BaseException]]") -> None:
        error = next((one for one in gathered.result() if isinstance(one, BaseException)), None)
        if self.written.done():
            return
        if error is None:
            self.written.set_result(None)
        else:
            self.written.set_exception(error)

    def build(self) -> bytearray:
        """Turn the records into bytes."""
        timestamp, keys, values, headers, _ = self._columns
        del self._columns  # to free its memory
        count = self._count
        self.builder.extend(
            [timestamp] * count,
            repeat(None, count) if keys is None else keys,
            values,
            repeat((), count) if headers is None else headers,
        )
        self.data = self.builder.build()
        return self.data

    def succeed(self, partition: TopicPartition, base_offset: int, log_append_time: int) -> None:
        """Complete `written`."""
        if not self.written.done():
            self.written.set_result(None)
        self._complete()

    def fail(self, error: KafkaError) -> None:
        """Fail `written`: the batch was not written, or whether it was written is unknown."""
        if not self.written.done():
            self.written.set_exception(error)
        self._complete()

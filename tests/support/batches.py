"""Batches for tests: records as plain tuples, and batches of them."""

from collections.abc import Iterable, Sequence

from protocol.compression import CompressionType
from protocol.record import Header, Record
from protocol.record_batch_builder import RecordBatchBuilder

Row = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""Timestamp, key, value, headers."""


def build(rows: Iterable[Row], base_offset: int = 0, codec: CompressionType = CompressionType.NONE) -> bytearray:
    """One batch of `rows` with consecutive offsets."""
    builder = RecordBatchBuilder(base_offset, codec)
    for timestamp, key, value, headers in rows:
        builder.append(timestamp, key, value, headers)
    return builder.build()


def rows_of(records: Iterable[Record]) -> list[Row]:
    """`records` without their offsets."""
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


def some_rows(count: int, size: int = 40, start: int = 1_700_000_000_000) -> list[Row]:
    """`count` rows of text that compresses, every seventh with a header, every tenth without a key."""
    return [
        (
            start + i,
            None if i % 10 == 9 else b"key-%d" % i,
            (b"value %d " % i * size)[:size],
            (("trace", b"%d" % i), ("none", None)) if i % 7 == 0 else (),
        )
        for i in range(count)
    ]

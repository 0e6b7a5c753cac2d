"""Fetched batches as Arrow batches for Spark: with exactly its schema, and about 1 MiB each.

Spark needs ordinary binary columns, so keys and values are copied once; constant columns are made once and sliced.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from client.arrow.tables import ArrowColumns
from client.consumer.fetched import FetchedBatches
from protocol.record_batch import RecordBatch as BatchView

TARGET_BYTES: Final = 1024 * 1024
_OURS: Final = {"timestampType": "timestamp_type"}
_SPARKS: Final = {ours: sparks for sparks, ours in _OURS.items()}


class RecordBatches:
    """Converts batches of one partition, up to the offset `end`, to record batches with the columns of a schema."""

    def __init__(self, schema: StructType, topic: str, partition: int, end: int) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._end = end
        self._wanted = [_OURS.get(name, name) for name in schema.names]
        self._constants = {"topic": _Constant(topic, pa.string()), "partition": _Constant(partition, pa.int32())}

    def of(self, fetches: Iterable[FetchedBatches]) -> Iterator[pa.RecordBatch]:
        """Batches of about `TARGET_BYTES`. Raises CorruptRecordError, InvalidRecordError for malformed batches."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for fetched in fetches:
            batch = self.batch(fetched)
            if not batch.num_rows:
                continue
            waiting.append(batch)
            size += batch.nbytes
            if size >= TARGET_BYTES:
                yield from _cut(_joined(waiting), size)
                waiting, size = [], 0
        if waiting:
            yield from _cut(_joined(waiting), size)

    def batch(self, fetched: FetchedBatches) -> pa.RecordBatch:
        """The records of one fetch before `end`."""
        batches = list(fetched.visible_batches())
        current = [batch for batch in batches if isinstance(batch, BatchView)]
        if len(current) == len(batches):
            made = ArrowColumns([fetched], [current], self._end)
            columns = [self._column(made, name, made.count) for name in self._wanted]
        else:
            table = fetched.to_arrow({*self._wanted, "offset"})
            count = int(np.searchsorted(table["offset"].to_numpy(), self._end))
            columns = [self._column(lambda name: table[name].combine_chunks(), name, count) for name in self._wanted]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, source: Callable[[str], pa.Array], name: str, count: int) -> pa.Array:
        if name in self._constants:
            return self._constants[name].times(count)
        if name in ("key", "value") and isinstance(source, ArrowColumns):
            return source.binary(name)
        column = source(name)[:count]
        kind = self._schema.field(_SPARKS.get(name, name)).type
        return _headers(column, kind) if name == "headers" else column.cast(kind)


def _headers(column: pa.ListArray, kind: pa.ListType) -> pa.Array:
    pairs = pa.StructArray.from_arrays([column.values.field(0), column.values.field(1)], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(column.offsets, pairs, type=kind)


class _Constant:
    """A column with one constant value: made once, with the largest number of rows needed so far."""

    def __init__(self, value: Any, kind: pa.DataType) -> None:
        self._value = pa.scalar(value, kind)
        self._array = pa.repeat(self._value, 0)

    def times(self, count: int) -> pa.Array:
        """The column with `count` rows."""
        if len(self._array) < count:
            self._array = pa.repeat(self._value, count)
        return self._array[:count]


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Slices of about `TARGET_BYTES`; the batch itself if it is not larger."""
    pieces = min(batch.num_rows, max(1, round(size / TARGET_BYTES)))
    rows = -(-batch.num_rows // pieces)
    for at in range(0, batch.num_rows, rows):
        yield batch.slice(at, rows)

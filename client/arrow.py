"""What a fetch brought as an Arrow table: millions of records a second, as no record becomes an object.

Keys and values are columns of type binary_view, whose bytes stay where the fetch has put them. Where a library wants
ordinary binary, `column.cast(pa.binary())` copies them together.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from client.fetched import FetchedBatches
from client.options import check_choice
from client.record_columns import Integers, RecordColumns
from protocol.errors import InvalidRecordError
from protocol.message_set import LegacyMessage
from protocol.record import read_headers
from protocol.record_batch import RecordBatch

HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary_view()),
        pa.field("value", pa.binary_view()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)
# A view: the length, then up to so many bytes of content, or its first four bytes, which buffer, and where in it.
_VIEW: Final = np.dtype([("length", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE: Final = 12


def to_arrow(fetched: FetchedBatches, columns: Collection[str] | None = None) -> pa.Table:
    """The records that a reader may see; `columns`: some of those of SCHEMA, None for all.

    Raises InvalidOptionError for an unknown column, CorruptRecordError, InvalidRecordError where a batch is malformed.
    """
    names = SCHEMA.names if columns is None else list(columns)
    for name in names:
        check_choice("columns", name, SCHEMA.names)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    batches = list(fetched.visible_batches())
    if any(isinstance(batch, LegacyMessage) for batch in batches):
        return _from_records(fetched, schema)
    columns_of = ArrowColumns(fetched, [batch for batch in batches if isinstance(batch, RecordBatch)])
    return pa.table([columns_of(name) for name in names], schema=schema)


class ArrowColumns:
    """The columns of batches of a fetch, each made when it is asked for by its name in SCHEMA.

    `count` rows: the records from the fetch's first offset on, and before `end`. Raises as `to_arrow` does.
    """

    def __init__(self, fetched: FetchedBatches, batches: Sequence[RecordBatch], end: int | None = None) -> None:
        self._topic, self._partition = fetched.partition
        self._columns = RecordColumns(batches, fetched.data)
        offsets = self._columns.offsets
        # The first batch may begin before what was asked for, and the last one end behind it.
        first = int(np.searchsorted(offsets, fetched.first_offset))
        self._chosen = slice(first, len(offsets) if end is None else max(first, int(np.searchsorted(offsets, end))))
        self.count = self._chosen.stop - first

    def __call__(self, name: str) -> pa.Array:
        """One column."""
        columns, chosen = self._columns, self._chosen
        if name == "topic":
            indices = pa.array(np.zeros(self.count, dtype=np.int32))
            return pa.DictionaryArray.from_arrays(indices, pa.array([self._topic]))
        if name == "partition":
            return pa.array(np.full(self.count, self._partition, dtype=np.int32))
        if name == "offset":
            return pa.array(columns.offsets[chosen])
        if name == "timestamp":
            return pa.array(columns.timestamps[chosen]).cast(SCHEMA.field(name).type)
        if name == "timestamp_type":
            return pa.array(columns.timestamp_types[chosen].astype(np.int32))
        if name in ("key", "value"):
            return self._views(*self._places(name))
        return self._headers(columns.header_starts[chosen], columns.ends[chosen])

    def binary(self, name: str) -> pa.Array:
        """The keys or the values as ordinary binary: copied, and not through views, which cost more to make."""
        starts, lengths = self._places(name)
        is_null = lengths < 0
        # Every other element is what lies between two contents.
        bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
        bounds[0:-1:2] = starts
        np.add(starts, np.maximum(lengths, 0), out=bounds[1::2], casting="unsafe")
        bounds[-1] = bounds[-2] if len(starts) else 0
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(self._columns.data)]
        )
        indices = np.arange(0, 2 * len(starts), 2, dtype=np.int32)
        return pieces.take(pa.array(indices, mask=is_null) if is_null.any() else pa.array(indices))

    def _places(self, name: str) -> tuple[Integers, Integers]:
        columns, chosen = self._columns, self._chosen
        if name == "key":
            return columns.key_starts[chosen], columns.key_lengths[chosen]
        return columns.value_starts[chosen], columns.value_lengths[chosen]

    def _views(self, starts: Integers, lengths: Integers) -> pa.Array:
        """A column of views on the batches' bytes."""
        data = np.frombuffer(self._columns.data, dtype=np.uint8)
        views = np.zeros(len(starts), dtype=_VIEW)
        is_long = lengths > _INLINE
        views["length"] = np.maximum(lengths, 0)
        views["offset"][is_long] = starts[is_long]
        content = views.view(np.uint8).reshape(len(starts), _VIEW.itemsize)
        for at in range(_INLINE):
            rows = np.flatnonzero((lengths > at) & ~is_long if at >= 4 else lengths > at)
            if len(rows):
                content[rows, 4 + at] = data[starts[rows] + at]
        is_null = lengths < 0
        validity = None
        if is_null.any():
            validity = pa.py_buffer(np.packbits(~is_null, bitorder="little").tobytes())
        buffers = [validity, pa.py_buffer(views.tobytes()), pa.py_buffer(self._columns.data)]
        return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers)

    def _headers(self, starts: Integers, ends: Integers) -> pa.Array:
        if not self._columns.header_counts.any():
            none = pa.array(np.zeros(len(starts) + 1, dtype=np.int32))
            return pa.ListArray.from_arrays(none, pa.array([], HEADERS.value_type))
        data = self._columns.data
        found = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            headers, size = read_headers(bytes(data[start:end]), 0, end - start)
            if size != end - start:
                raise InvalidRecordError(f"a record ends at byte {start + size}, its length says {end}")
            found.append([{"name": name, "value": value} for name, value in headers])
        return pa.array(found, HEADERS)


def _from_records(fetched: FetchedBatches, schema: pa.Schema) -> pa.Table:
    """Record by record, where there are messages of format 0 or 1: they are rare, and going away."""
    records = list(fetched.records())
    values: dict[str, list[Any]] = {name: [getattr(one, name) for one in records] for name in schema.names}
    if "headers" in values:
        values["headers"] = [[] for _ in records]
    return pa.table([pa.array(values[field.name], field.type) for field in schema], schema=schema)

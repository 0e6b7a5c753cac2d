"""Fetched batches as an Arrow table: millions of records a second, because no object is made for each record.

Partitions of one Fetch answer are decoded together: for few records the calls of numpy are most of the cost.

Keys and values are columns of type binary_view, whose bytes stay in the buffer of the fetch. For a library that needs
ordinary binary, `column.cast(pa.binary())` copies them together.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from client.arrow.record_columns import Integers, RecordColumns
from client.consumer.fetched import FetchedBatches
from client.options import check_choice
from protocol.buffer import Buffer
from protocol.errors import InvalidRecordError
from protocol.record import Header, read_headers
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
# A view is four 32-bit numbers: the length, then up to 12 bytes of content, or instead the first four bytes of the
# content, the number of the buffer and the position in it.
_INLINE: Final = 12


def to_arrow(fetches: Sequence[FetchedBatches], columns: Collection[str] | None = None) -> pa.Table:
    """The visible records of these fetches. `columns`: some columns of SCHEMA, None for all.

    Raises InvalidOptionError for an unknown column, CorruptRecordError or InvalidRecordError for a malformed batch.
    """
    names = SCHEMA.names if columns is None else list(columns)
    for name in names:
        check_choice("columns", name, SCHEMA.names)
    schema = pa.schema([SCHEMA.field(name) for name in names])
    tables = []
    for _, parts in groupby(fetches, key=lambda fetched: id(_whole(fetched))):
        some = list(parts)
        batches = [list(fetched.visible_batches()) for fetched in some]
        current = [[batch for batch in part if isinstance(batch, RecordBatch)] for part in batches]
        if current == batches:
            columns_of = ArrowColumns(some, current)
            tables.append(pa.table([columns_of(name) for name in names], schema=schema))
        else:
            tables += [_from_records(fetched, schema) for fetched in some]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables) if tables else schema.empty_table()


def _whole(fetched: FetchedBatches) -> Buffer:
    """The buffer of the whole Fetch answer, which its partitions share."""
    data = fetched.data
    return cast(Buffer, data.obj) if isinstance(data, memoryview) else data


def _address(buffer: Buffer) -> int:
    return int(np.frombuffer(buffer, dtype=np.uint8).__array_interface__["data"][0])


class ArrowColumns:
    """The columns of the batches of one Fetch answer; a call with a name of SCHEMA makes the column.

    `count`: the number of rows, which are the records of each partition from the first offset of its fetch up to `end`
    (exclusive). Raises the errors of `to_arrow`.
    """

    def __init__(
        self, fetches: Sequence[FetchedBatches], batches: Sequence[Sequence[RecordBatch]], end: int | None = None
    ) -> None:
        # A single partition does not refer to the whole answer, which would count as the size of its table.
        whole = _whole(fetches[0]) if len(fetches) > 1 else fetches[0].data
        begin = _address(whole)
        positions = [
            _address(fetched.data) - begin + batch.position
            for fetched, part in zip(fetches, batches, strict=True)
            for batch in part
        ]
        self._columns = RecordColumns([batch for part in batches for batch in part], whole, positions)
        self._partitions = [fetched.partition for fetched in fetches]
        rows = list(self._rows(fetches, batches, end))
        self._counts = [len(some) for some in rows]
        self.count = sum(self._counts)
        self._chosen: slice | Integers = slice(rows[0].start, rows[-1].stop)
        if self.count < rows[-1].stop - rows[0].start:  # some records in between are not visible
            self._chosen = np.concatenate([np.arange(some.start, some.stop) for some in rows])

    def _rows(
        self, fetches: Sequence[FetchedBatches], batches: Sequence[Sequence[RecordBatch]], end: int | None
    ) -> Iterator[range]:
        """The rows of each partition. Its first batch may begin before the fetch offset, its last end after `end`."""
        at = 0
        for fetched, part in zip(fetches, batches, strict=True):
            behind = at + sum(batch.record_count for batch in part)
            offsets = self._columns.offsets[at:behind]
            first = int(offsets.searchsorted(fetched.first_offset))
            yield range(at + first, behind if end is None else at + max(first, int(offsets.searchsorted(end))))
            at = behind

    def __call__(self, name: str) -> pa.Array:
        """Make one column."""
        columns, chosen = self._columns, self._chosen
        kind = SCHEMA.field(name).type
        if name == "topic":
            topics = list(dict.fromkeys(partition.topic for partition in self._partitions))
            indices = self._of_partition([topics.index(partition.topic) for partition in self._partitions])
            return pa.DictionaryArray.from_arrays(indices, _strings(pa.string(), [topic.encode() for topic in topics]))
        if name == "partition":
            return self._of_partition([partition.partition for partition in self._partitions])
        if name == "offset":
            return _numbers(kind, columns.offsets[chosen])
        if name == "timestamp":
            return _numbers(kind, columns.timestamps[chosen])
        if name == "timestamp_type":
            return _numbers(kind, columns.timestamp_types[chosen].astype(np.int32))
        if name in ("key", "value"):
            return self._views(*self._places(name))
        return self._headers(columns.header_starts[chosen], columns.ends[chosen])

    def binary(self, name: str) -> pa.Array:
        """The keys or values as ordinary binary: copied, and without views, which cost more to make."""
        starts, lengths = self._places(name)
        # Every other element is the space between two contents.
        bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
        bounds[0:-1:2] = starts
        np.add(starts, np.maximum(lengths, 0), out=bounds[1::2], casting="unsafe")
        bounds[-1] = bounds[-2] if len(starts) else 0
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * len(starts), [None, pa.py_buffer(bounds), pa.py_buffer(self._columns.data)]
        )
        indices = np.arange(0, 2 * len(starts), 2, dtype=np.int32)
        return pieces.take(_numbers(pa.int32(), indices, lengths < 0))

    def _of_partition(self, values: Sequence[int]) -> pa.Array:
        """Repeat each partition's value for each of its rows."""
        return _numbers(pa.int32(), np.repeat(np.array(values, dtype=np.int32), self._counts))

    def _places(self, name: str) -> tuple[Integers, Integers]:
        columns, chosen = self._columns, self._chosen
        if name == "key":
            return columns.key_starts[chosen], columns.key_lengths[chosen]
        return columns.value_starts[chosen], columns.value_lengths[chosen]

    def _views(self, starts: Integers, lengths: Integers) -> pa.Array:
        """A column of views of the batches' bytes."""
        data = np.frombuffer(self._columns.data, dtype=np.uint8)
        shortest, longest = (lengths.min(), lengths.max()) if len(lengths) else (0, 0)
        views = np.zeros((len(starts), 4), dtype="<i4")
        views[:, 0] = np.maximum(lengths, 0)
        if longest > _INLINE:
            long = slice(None) if shortest > _INLINE else np.flatnonzero(lengths > _INLINE)
            words = np.ndarray((len(data) - 3,), dtype="<i4", buffer=data, strides=(1,))
            views[long, 1] = words[starts[long]]
            views[long, 3] = starts[long]
        if longest > 0 and shortest <= _INLINE:
            short = np.flatnonzero((lengths > 0) & (lengths <= _INLINE))
            content = views.view(np.uint8)
            for at in range(_INLINE):
                short = short[lengths[short] > at]
                content[short, 4 + at] = data[starts[short] + at]
        validity = _validity(lengths < 0) if shortest < 0 else None
        buffers = [validity, pa.py_buffer(views), pa.py_buffer(self._columns.data)]
        return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers)

    def _headers(self, starts: Integers, ends: Integers) -> pa.Array:
        data = self._columns.data
        bounds = np.zeros(len(starts) + 1, dtype=np.int32)
        found: list[Header] = []
        if self._columns.header_counts.any():
            for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True), 1):
                headers, size = read_headers(bytes(data[start:end]), 0, end - start)
                if size != end - start:
                    raise InvalidRecordError(f"a record ends at byte {start + size}, its length says {end}")
                found += headers
                bounds[number] = len(found)
        fields = list(HEADERS.value_type)
        names = _strings(fields[0].type, [name.encode() for name, _ in found])
        values = _strings(fields[1].type, [value for _, value in found])
        pairs = pa.StructArray.from_arrays([names, values], fields=fields)
        return pa.ListArray.from_arrays(_numbers(pa.int32(), bounds), pairs)


# `pa.array` does the same as these functions, but imports pandas if it is installed: 0.4 s of CPU time.


def _numbers(kind: pa.DataType, values: NDArray[Any], is_null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of numbers with the width of `kind`, without copying."""
    return pa.Array.from_buffers(kind, len(values), [_validity(is_null), pa.py_buffer(values)])


def _strings(kind: pa.DataType, values: Sequence[bytes | None]) -> pa.Array:
    """An array of strings or binaries."""
    content = [value or b"" for value in values]
    bounds = np.zeros(len(values) + 1, dtype=np.int32)
    np.cumsum([len(one) for one in content], out=bounds[1:])
    validity = _validity(np.array([value is None for value in values], dtype=np.bool_))
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(bounds), pa.py_buffer(b"".join(content))])


def _validity(is_null: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """The validity bitmap of an array; None if it has no nulls."""
    if is_null is None or not is_null.any():
        return None
    return pa.py_buffer(np.packbits(~is_null, bitorder="little"))


def _from_records(fetched: FetchedBatches, schema: pa.Schema) -> pa.Table:
    """Convert record by record, if the fetch contains messages of format 0 or 1, which are rare."""
    records = list(fetched.records())
    values: dict[str, list[Any]] = {name: [getattr(one, name) for one in records] for name in schema.names}
    if "headers" in values:
        values["headers"] = [[{"name": name, "value": value} for name, value in one.headers] for one in records]
    return pa.table([pa.array(values[field.name], field.type) for field in schema], schema=schema)

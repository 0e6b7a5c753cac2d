"""The columns of a query that writes: which of them the sink takes, checked by name and type, and their rows.

As in Spark's Kafka sink: `value` must be there; `key`, `topic`, `partition` and `headers` may be; others are not
looked at. A topic is needed from the option or the column; the option goes before.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from spark_connector.errors import ColumnError

_BYTES: Final = ("string or binary", (StringType, BinaryType))
_TYPES: Final[dict[str, tuple[str, tuple[type[DataType], ...]]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string", (StringType,)),
    "partition": ("int", (IntegerType,)),
}
_HEADERS: Final = "array<struct<key:string,value:binary>>"
NO_TOPIC: Final = "set the option topic, or have a column topic of type string"

Header = tuple[str, bytes | None]


class Rows(NamedTuple):
    """The rows of an Arrow batch by column, each as long as the batch. What no column gives is None in every row."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    topics: Sequence[str]
    partitions: Sequence[int | None]
    headers: Sequence[Sequence[Header]]


class SinkColumns:
    """Where the columns stand in the batches of a query. It can be pickled."""

    def __init__(self, schema: StructType, topic: str | None) -> None:
        """topic: that of the option. Raises ColumnError, which names the column, its type and the rule."""
        self._topic = topic
        self._places: dict[str, int] = {}
        for place, field in enumerate(schema.fields):
            if field.name in (*_TYPES, "headers"):
                _check(field.name, field.dataType)
                self._places[field.name] = place
        if "value" not in self._places:
            names = ", ".join(schema.fieldNames()) or "none"
            raise ColumnError(f"required column value not found; the columns are: {names}")
        if topic is None and "topic" not in self._places:
            raise ColumnError(f"no topic to write to: {NO_TOPIC}")

    def rows(self, batch: pa.RecordBatch) -> Rows:
        """The rows of a batch. Raises ColumnError for a row without topic, or a header without key."""
        count = batch.num_rows
        nothing = [None] * count
        return Rows(
            self._bytes(batch, "key") or nothing,
            self._bytes(batch, "value") or nothing,
            self._topics(batch),
            self._column(batch, "partition") or nothing,
            self._headers(batch),
        )

    def _column(self, batch: pa.RecordBatch, name: str) -> list[Any] | None:
        place = self._places.get(name)
        return None if place is None else batch.column(place).to_pylist()

    def _bytes(self, batch: pa.RecordBatch, name: str) -> list[bytes | None] | None:
        place = self._places.get(name)
        return None if place is None else _as_bytes(batch.column(place))

    def _topics(self, batch: pa.RecordBatch) -> Sequence[str]:
        if self._topic is not None:
            return [self._topic] * batch.num_rows
        column = batch.column(self._places["topic"])
        if column.null_count:
            raise ColumnError(f"null in the column topic: {NO_TOPIC} without nulls")
        # Most batches have few topics: each becomes one string.
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        found: list[str] = [names[index] for index in encoded.indices.to_pylist()]
        return found

    def _headers(self, batch: pa.RecordBatch) -> Sequence[Sequence[Header]]:
        lists = self._column(batch, "headers")
        if lists is None:
            return list(repeat((), batch.num_rows))
        return [() if one is None else tuple(map(_header, one)) for one in lists]


def _as_bytes(column: pa.Array) -> list[bytes | None]:
    """A column of binary or string as bytes; text is UTF-8."""
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    elif pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.binary())
    found: list[bytes | None] = column.to_pylist()
    return found


def _header(one: Any) -> Header:
    if one is None or one["key"] is None:
        raise ColumnError("null in the column headers: a header has a key")
    return one["key"], one["value"]


def _check(name: str, found: DataType) -> None:
    if name == "headers":
        if not _is_headers(found):
            raise ColumnError(f"column headers has the type {found.simpleString()}: it must be {_HEADERS}")
        return
    rule, types = _TYPES[name]
    if not isinstance(found, types):
        raise ColumnError(f"column {name} has the type {found.simpleString()}: it must be {rule}")


def _is_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]

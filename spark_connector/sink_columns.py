"""The columns of a query that writes: those that the sink uses, checked by name and type, and their rows.

As in Spark's Kafka sink, `value` is required; `key`, `topic`, `partition` and `headers` are optional; other columns are
ignored. The topic comes from the option or from the column; the option overrides the column.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from client.arrow.key_column import partitions_of_keys
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
    """Rows for one partition as columns of the same length; None for a column without any value."""

    topic: str
    partition: int | None
    """None if the producer chooses."""
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Sequence[Header]] | None


class SinkColumns:
    """The positions of the sink's columns in the batches of a query. It can be pickled."""

    def __init__(self, schema: StructType, topic: str | None) -> None:
        """topic: the option's value. Raises ColumnError, which names the column, its type and the rule."""
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

    def topics(self, batch: pa.RecordBatch) -> list[str]:
        """The topics of a batch's rows. Raises ColumnError for a row without one."""
        if self._topic is not None:
            return [self._topic]
        column = batch.column(self._places["topic"])
        if column.null_count:
            raise ColumnError(f"null in the column topic: {NO_TOPIC} without nulls")
        found: list[str] = pc.unique(column).to_pylist()
        return found

    def rows(self, batch: pa.RecordBatch, counts: Mapping[str, int]) -> Iterator[Rows]:
        """The rows of a batch, in order within each partition. counts: the number of partitions by topic.

        Raises ColumnError for a header without a key.
        """
        if len(counts) == 1:
            (topic,) = counts
            yield from self._of_topic(batch, topic, counts[topic])
            return
        topics = batch.column(self._places["topic"])
        for topic, count in counts.items():
            yield from self._of_topic(batch.filter(pc.equal(topics, topic)), topic, count)

    def _of_topic(self, batch: pa.RecordBatch, topic: str, count: int) -> Iterator[Rows]:
        numbers = self._partitions(batch, count)
        if numbers is None:
            yield self._part(batch, topic, None)
            return
        for number in np.unique(numbers):
            part = batch.take(pa.array(np.flatnonzero(numbers == number)))
            yield self._part(part, topic, None if number < 0 else int(number))

    def _partitions(self, batch: pa.RecordBatch, count: int) -> npt.NDArray[np.int64] | None:
        """The partition of each row, -1 if the producer chooses; None if the producer chooses for all rows."""
        keys, chosen = self._column(batch, "key"), self._column(batch, "partition")
        by_key = None if keys is None else partitions_of_keys(_as_binary(keys), count)
        if chosen is None:
            return by_key
        numbers = chosen.cast(pa.int64())
        if (negative := pc.min(numbers).as_py()) is not None and negative < 0:
            raise ColumnError(f"{negative} in the column partition: a partition must not be negative")
        found = pc.fill_null(numbers, -1).to_numpy(zero_copy_only=False)
        return found if by_key is None else np.where(found < 0, by_key, found)

    def _part(self, batch: pa.RecordBatch, topic: str, partition: int | None) -> Rows:
        values, keys = self._column(batch, "value"), self._column(batch, "key")
        lists = self._column(batch, "headers")
        headers = None
        if lists is not None and lists.null_count < len(lists):
            headers = [() if one is None else tuple(map(_header, one)) for one in lists.to_pylist()]
        return Rows(
            topic,
            partition,
            _as_binary(values).to_pylist(),
            None if keys is None or partition is None else _as_binary(keys).to_pylist(),
            headers,
        )

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array | None:
        place = self._places.get(name)
        return None if place is None else batch.column(place)


def _as_binary(column: pa.Array) -> pa.Array:
    """A column of text as UTF-8 bytes."""
    if pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary())
    return column.cast(pa.binary())


def _header(one: Any) -> Header:
    if one is None or one["key"] is None:
        raise ColumnError("null in the column headers: a header must have a key")
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

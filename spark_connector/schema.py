"""The columns of the source: those of Spark's Kafka source."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from client.options import check_choice, refuse

HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
COLUMNS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
HEADERS: Final = StructField("headers", ArrayType(HEADER))


def column_names(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a query with these options: all (`headers` only with includeHeaders), or those of `columns`.

    Raises InvalidOptionError.
    """
    texts = {name.lower(): value for name, value in options.items()}
    with_headers = texts.get("includeheaders", "false").strip().lower()
    check_choice("includeHeaders", with_headers, ("true", "false"))
    known = [field.name for field in COLUMNS] + ([HEADERS.name] if with_headers == "true" else [])
    text = texts.get("columns")
    if text is None:
        return tuple(known)
    by_lower = {name.lower(): name for name in known}
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name == HEADERS.name and with_headers != "true":
            raise refuse("columns", text, "the column headers needs includeHeaders=true")
        if name not in by_lower:
            raise refuse("columns", text, f"unknown column {name!r}; the columns are {', '.join(known)}")
    if len(set(names)) < len(names):
        raise refuse("columns", text, "names a column twice")
    return tuple(by_lower[name] for name in names)


def source_schema(options: Mapping[str, str]) -> StructType:
    """The columns as Spark's StructType. Raises InvalidOptionError."""
    by_name = {field.name: field for field in (*COLUMNS, HEADERS)}
    return StructType([by_name[name] for name in column_names(options)])

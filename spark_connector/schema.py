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


def source_schema(options: Mapping[str, str]) -> StructType:
    """The columns that a query with these options has: `headers` with includeHeaders."""
    with_headers = options.get("includeHeaders", "false").strip().lower() == "true"
    return StructType([*COLUMNS, HEADERS] if with_headers else list(COLUMNS))

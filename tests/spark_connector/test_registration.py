"""Spark finds the source by its name."""

from __future__ import annotations

import pytest


def test_the_format_is_known_without_any_registration(spark):
    schema = spark.read.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:9").load().schema
    assert schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )


@pytest.mark.parametrize("name", ["includeHeaders", "INCLUDEHEADERS"])
def test_headers_are_a_column_if_requested(spark, name):
    field = spark.read.format("ottla").option(name, "true").load().schema["headers"]
    assert field.dataType.simpleString() == "array<struct<key:string,value:binary>>"

"""Options and columns that the sink refuses, before a row is written. No cluster, no Spark."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, MapType, StringType, StructField, StructType

from client.errors import InvalidOptionError
from spark_connector.data_source import OttlaDataSource
from spark_connector.errors import ColumnError
from spark_connector.kafka_options import PRODUCER, client_options
from spark_connector.sink_options import OPTIONS

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
TEXT = StringType()


def writer(options, **types):
    """The writer that Spark asks for; columns by name, each with its type."""
    schema = StructType([StructField(name, of_column) for name, of_column in types.items()])
    return OttlaDataSource(SERVERS | options).writer(schema, overwrite=False)


def headers(of_value):
    return ArrayType(StructType([StructField("key", TEXT), StructField("value", of_value)]))


def test_columns_of_the_right_types_are_accepted():
    writer({}, key=BinaryType(), value=TEXT, topic=TEXT, partition=IntegerType(), headers=headers(BinaryType()))


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"key": TEXT}, "required column value not found; the columns are: key"),
        ({"value": IntegerType()}, "column value has the type int: it must be string or binary"),
        ({"value": TEXT, "key": LongType()}, "column key has the type bigint: it must be string or binary"),
        ({"value": TEXT, "topic": BinaryType()}, "column topic has the type binary: it must be string"),
        ({"value": TEXT, "partition": LongType()}, "column partition has the type bigint: it must be int"),
        (
            {"value": TEXT, "headers": MapType(TEXT, BinaryType())},
            "column headers has the type map<string,binary>: it must be array<struct<key:string,value:binary>>",
        ),
        (
            {"value": TEXT, "headers": headers(TEXT)},
            "column headers has the type array<struct<key:string,value:string>>: it must be",
        ),
    ],
    ids=["no value", "value", "key", "topic", "partition", "headers", "value of a header"],
)
def test_columns_of_other_types_are_refused_by_name_and_type(types, message):
    with pytest.raises(ColumnError, match=re.escape(message)):
        writer({"topic": "t"}, **types)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "t"}, "topics='t': the sink has no such option; did you mean topic?"),
        ({"subscribe": "t"}, "the sink has no such option; known options: topic, includeHeaders, deliveryGuarantee"),
        ({"topic": " "}, "topic=' ': must not be empty"),
        ({"kafka.lingerms": "5"}, "kafka.lingerms='5': unknown; did you mean kafka.linger.ms?"),
        ({"kafka.request.required.acks": "1"}, "kafka.request.required.acks='1': use kafka.acks"),
        ({"kafka.serializer.class": "x"}, "kafka.serializer.class='x': values are bytes or strings: cast the column"),
        ({"kafka.group.id": "g"}, "kafka.group.id='g': the sink has no such setting"),
        ({"kafka.brokerid": "1"}, "kafka.brokerid='1': brokers have broker.id"),
        ({"kafka.linger.ms": "soon"}, "kafka.linger.ms='soon': must be a whole number"),
        ({"kafka.linger.ms": "-1"}, "linger_ms=-1: must be at least 0"),
        ({"kafka.acks": "2"}, "acks=2: must be one of"),
        ({"kafka.enable.idempotence": "maybe"}, "kafka.enable.idempotence='maybe': must be true or false"),
        ({"kafka.ssl.truststore.location": "ca"}, "kafka.ssl.truststore.location='ca': needs security_protocol SSL"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol='TLS': must be one of PLAINTEXT, SSL"),
        ({"kafka.sasl.passwort": "hunter2"}, "kafka.sasl.passwort=[hidden]: unknown"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id='x': set transactionalIdPrefix"),
        ({"deliveryGuarantee": "twice"}, "'twice': must be one of at-least-once, exactly-once"),
        ({"deliveryGuarantee": "exactly-once"}, "needs transactionalIdPrefix"),
        ({"transactionalIdPrefix": "x"}, "only has a meaning with deliveryGuarantee=exactly-once"),
        ({"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "a b"}, "must be 1 to 200 letters, digits"),
        (
            {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "x", "kafka.acks": "1"},
            "kafka.acks=1: must be all with deliveryGuarantee=exactly-once",
        ),
        (
            {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "x", "kafka.enable.idempotence": "false"},
            "kafka.enable.idempotence='false': must be true",
        ),
    ],
)
def test_options_are_refused_by_name_value_and_rule(options, message):
    with pytest.raises(InvalidOptionError, match=re.escape(message)):
        writer({"topic": "t", **options}, value=TEXT)


def test_settings_without_effect_are_ignored():
    given = SERVERS | {"kafka.Retries": "3", "kafka.compression.type": "None", "kafka.acks": "-1"}
    assert client_options(given, PRODUCER) == {
        "bootstrap_servers": "127.0.0.1:9092",
        "compression_type": None,
        "acks": "all",
    }


def test_option_names_are_distinct_without_case():
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)


def test_servers_are_required():
    with pytest.raises(InvalidOptionError, match=r"kafka\.bootstrap\.servers must be set"):
        OttlaDataSource({"topic": "t"}).writer(StructType([StructField("value", TEXT)]), overwrite=False)

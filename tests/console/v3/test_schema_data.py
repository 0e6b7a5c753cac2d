"""Producing records with schemas over /v3; Confluent's own deserializers read them back."""

import json

import pytest
import pytest_asyncio
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from client.consumer.reader import Reader
from client.schemas.protobuf import ProtobufCodec, compile_text
from client.schemas.wire_format import unframe
from client.topic_partition import TopicPartition
from console.decoding.schema_cache import SchemaCache
from ottla import testing
from support.rest import rest_api
from support.schema_registry import RegistryThread

pytestmark = pytest.mark.asyncio(loop_scope="module")
AVRO = json.dumps({"type": "record", "name": "Letter", "fields": [{"name": "to", "type": "string"}]})
JSON_SCHEMA = '{"title": "Letter", "type": "object", "properties": {"to": {"type": "string"}}}'
PROTO = 'syntax = "proto3"; message Letter { string to = 1; }'
LETTER = {"to": "Milena"}


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def registry():
    with RegistryThread() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(servers, registry):
    async with rest_api(servers, SchemaCache([registry.url])) as api:
        yield api


async def read(servers, topic, count=1):
    async with Reader(bootstrap_servers=servers) as reader:
        reader.assign({TopicPartition(topic, 0): "beginning"})
        found = []
        while len(found) < count:
            found += await reader.fetch()
        return found


async def create(rest, topic):
    assert (await rest.ask("POST", "topics", {"topic_name": topic})).status == 201


async def produce(rest, topic, **record):
    return (await rest.ask("POST", f"topics/{topic}/records", record)).body


@pytest.mark.parametrize(("kind", "text"), [("AVRO", AVRO), ("JSONSCHEMA", JSON_SCHEMA), ("PROTOBUF", PROTO)])
async def test_a_schema_as_text_by_id_by_version_and_the_latest(rest, servers, registry, kind, text):
    topic = kind.lower()
    await create(rest, topic)
    given = {"type": kind, "schema": text, "data": LETTER}
    first = await produce(rest, topic, value=given, key=given)
    assert first["error_code"] == 200, first
    number = first["value"]["schema_id"]
    assert first["value"] == {
        "size": first["value"]["size"],
        "type": kind,
        "subject": f"{topic}-value",
        "schema_id": number,
        "schema_version": 1,
    }
    assert first["key"]["subject"] == f"{topic}-key"
    for more in ({"schema_id": number}, {"schema_version": 1}, {}, {"subject": f"{topic}-key"}):
        again = await produce(rest, topic, value=more | {"data": LETTER})
        assert (again.get("error_code"), again.get("value", {}).get("schema_id")) == (200, number), again
    records = await read(servers, topic, 5)
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        for record in records:
            if kind == "AVRO":
                assert AvroDeserializer(client)(record.value, context) == LETTER
            elif kind == "JSONSCHEMA":
                assert JSONDeserializer(JSON_SCHEMA)(record.value, context) == LETTER
            else:
                codec = ProtobufCodec(compile_text(PROTO, {}))
                assert codec.decode(unframe(record.value)[1], is_framed=True) == LETTER


async def test_records_keep_their_order(rest, servers, registry):
    await create(rest, "order")
    schema = '"long"'
    lines = [
        {"value": {"type": "AVRO", "schema": schema, "data": n} if n % 2 else {"type": "STRING", "data": str(n)}}
        for n in range(20)
    ]
    body = "".join(json.dumps(one) for one in lines)
    url, headers = rest.full("topics/order/records"), {"Content-Type": "application/json"}
    async with rest.http.post(url, data=body, headers=headers) as answer:
        assert answer.status == 200
    sizes = [len(one.value) for one in await read(servers, "order", 20)]
    assert [size >= 6 for size in sizes] == [bool(n % 2) for n in range(20)]


async def test_what_is_refused(rest, registry):
    await create(rest, "wrong")
    registry.register("wrong-value", AVRO)
    by_text = {"type": "AVRO", "schema": AVRO}
    for value, code, clue in [
        (by_text | {"data": {"to": 5}}, 42203, "to must be a string"),
        ({"data": {"from": "x"}}, 42203, "the field to is missing"),
        ({"schema_id": 4711, "data": LETTER}, 422, "the subject wrong-value has no schema with the id 4711"),
        ({"schema_version": 9, "data": LETTER}, 422, "has no subject wrong-value with a version 9"),
        ({"subject": "nothing", "data": LETTER}, 422, "has no subject nothing"),
        ({"type": "AVRO", "schema": "{]", "data": 1}, 42205, "not an Avro schema"),
        ({"type": "AVRO", "data": 1}, 400, "needs `schema`"),
        ({"schema": AVRO, "data": 1}, 400, "schema needs a type"),
        ({"schema_id": 1, "schema_version": 1, "data": 1}, 400, "exclude each other"),
        ({"type": "STRING", "schema_id": 1, "data": "x"}, 400, "has no schema"),
        ({"subject_name_strategy": "RECORD_NAME", "data": 1}, 400, "must be TOPIC_NAME"),
        ({"schema_id": 2**40, "data": 1}, 400, "must be a number from 1"),
    ]:
        found = await produce(rest, "wrong", value=value)
        assert found["error_code"] == code, found
        assert clue in found["message"]


async def test_a_dead_registry_refuses_at_once(servers):
    async with rest_api(servers, SchemaCache(["http://127.0.0.1:1"])) as rest:
        await create(rest, "dead")
        entries = [{"id": str(n), "value": {"subject": f"s{n}", "data": 1}} for n in range(50)]
        answer = await rest.ask("POST", "topics/dead/records:batch", {"entries": entries})
        assert len(answer.body["failures"]) == 50
        assert "cannot be reached" in answer.body["failures"][-1]["message"]

"""Records with schemas of a registry over /api/v1, written by Confluent's own serializers."""

import json
import struct

import pytest
import pytest_asyncio
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from client.admin.admin import Admin
from client.producer.producer import Producer
from client.schemas.protobuf import compile_text
from console.decoding.schema_cache import SchemaCache
from ottla import testing
from support.rest import rest_api
from support.schema_registry import RegistryThread

pytestmark = pytest.mark.asyncio(loop_scope="module")
USER = ("franz", "kafka:1883")
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "city", "type": "string"}, {"name": "total", "type": ["null", "double"]}],
    }
)
JSON_SCHEMA = '{"title": "Order", "type": "object", "properties": {"city": {"type": "string"}}}'
BOMB = '{"type": "array", "items": "null"}'
RECURSIVE = '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}'

PROTO = """syntax = "proto3"; package shop;
message Order { int64 id = 1; repeated Line lines = 2; message Line { string text = 1; } }"""


def order_class():
    pool = descriptor_pool.DescriptorPool()
    [file] = descriptor_pb2.FileDescriptorSet.FromString(compile_text(PROTO, {})).file
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = order_class()


class Written:
    """A broker, a registry, and the API with that registry."""

    def __init__(self, servers, registry, rest):
        self.servers = servers
        self.registry = registry
        self.rest = rest

    async def one(self, topic, value, key=None, **query):
        """Write a record to a new topic and return it as the API shows it, in the list."""
        async with Admin(bootstrap_servers=self.servers) as admin, Producer(bootstrap_servers=self.servers) as producer:
            await admin.create_topic(topic)
            await producer.send(topic, value, key=key)
        return await self.record(topic, **query)

    async def record(self, topic, **query):
        """The newest record of a topic."""
        page = await self.rest.get(f"/api/v1/topics/{topic}/records", params=query)
        return page["records"][0]


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def written(servers):
    with RegistryThread(auth=USER) as registry:
        schemas = SchemaCache(["http://127.0.0.1:1", registry.url], ":".join(USER))
        async with rest_api(servers, schemas) as rest:
            yield Written(servers, registry, rest)


@pytest.fixture
def client(written):
    settings = {"url": written.registry.url, "basic.auth.user.info": ":".join(USER)}
    with SchemaRegistryClient(settings) as client:
        yield client


def framed(number, content):
    return struct.pack(">bI", 0, number) + content


async def test_avro_keys_and_values_of_confluents_serializer(written, client):
    field = SerializationContext("avro", MessageField.VALUE)
    value = AvroSerializer(client, AVRO)({"city": "Zürau", "total": 2.5}, field)
    key = AvroSerializer(client, '"string"')("k1", SerializationContext("avro", MessageField.KEY))
    record = await written.one("avro", value, key)
    number = struct.unpack(">I", value[1:5])[0]
    assert record["key"]["text"] == '"k1"'
    shown = record["value"]
    assert json.loads(shown["text"]) == {"city": "Zürau", "total": {"double": 2.5}}
    assert (shown["decoder"], shown["schema_id"], shown["schema_type"]) == ("registry", number, "AVRO")
    assert (shown["is_json"], shown["error"]) == (True, None)
    schema = await written.rest.get(f"/api/v1/schemas/{number}")
    assert (schema["type"], schema["subjects"]) == ("AVRO", [{"subject": "avro-value", "version": 1}])
    assert json.loads(schema["text"])["name"] == "Order"
    asked = written.registry.requests.count(f"/schemas/ids/{number}")
    assert (await written.rest.get("/api/v1/topics/avro/partitions/0/records/0"))["value"] == shown
    assert written.registry.requests.count(f"/schemas/ids/{number}") == asked

    def matches(path):
        return written.rest.http.get(
            written.rest.full("/api/v1/topics/avro/records:download"), params={"path": path, "from": "oldest"}
        )

    async with matches('$.city == "Zürau"') as found:
        assert json.loads(await found.text())["value"] == shown["text"]
    async with matches('$.city == "Prague"') as found:
        assert await found.text() == ""
    async with rest_api(written.servers, SchemaCache([written.registry.url], ":".join(USER))) as fresh:
        query = {"path": '$.city == "Zürau"', "from": "oldest"}
        async with fresh.http.get(fresh.full("/api/v1/topics/avro/records:search"), params=query) as found:
            assert '"matched":1' in await found.text()
    hexadecimal = await written.record("avro", value_decoder="hex")
    assert hexadecimal["value"]["text"] == value.hex(" ")


async def test_protobuf_and_json_schema_of_confluents_serializers(written, client):
    written.registry.register("protobuf-value", PROTO, "PROTOBUF")
    latest = {"auto.register.schemas": False, "use.latest.version": True, "use.deprecated.format": False}
    serializer = ProtobufSerializer(ORDER, client, latest)
    order = ORDER(id=7, lines=[{"text": "a"}, {}])
    record = await written.one("protobuf", serializer(order, SerializationContext("protobuf", MessageField.VALUE)))
    assert record["value"]["error"] is None
    assert json.loads(record["value"]["text"]) == {"id": "7", "lines": [{"text": "a"}, {"text": ""}]}
    assert record["value"]["schema_type"] == "PROTOBUF"
    value = JSONSerializer(JSON_SCHEMA, client)({"city": "Prag"}, SerializationContext("json", MessageField.VALUE))
    record = await written.one("json", value)
    assert (record["value"]["schema_type"], json.loads(record["value"]["text"])) == ("JSON", {"city": "Prag"})


async def test_a_protobuf_message_of_many_empty_ones(written):
    number = written.registry.register("many", PROTO, "PROTOBUF")
    record = await written.one("many", framed(number, b"\x00" + b"\x12\x00" * 60_000), limit=1)
    whole = await written.rest.get("/api/v1/topics/many/partitions/0/records/0")
    assert record["value"]["is_truncated"]  # too large for a list
    assert whole["value"]["error"] == "has more than 100000 entries"


async def test_what_only_seems_to_have_a_schema(written):
    value = framed(4711, b"x")
    record = await written.one("unknown", value)
    assert (record["value"]["text"], record["value"]["error"]) == (value.hex(" "), None)
    asked = await written.record("unknown", value_decoder="registry")
    assert asked["value"]["error"].endswith("has no schema with the id 4711")
    text = await written.one("text", b"hello world", value_decoder="registry")
    assert text["value"]["text"] == "hello world"
    assert "not with the magic byte 0" in text["value"]["error"]
    assert (await written.rest.ask("GET", "/api/v1/schemas/4711")).status == 404
    number = written.registry.register("misfit", AVRO)
    misfit = await written.one("misfit", framed(number, b"\xff\xff"))
    assert "has a length of" in misfit["value"]["error"]
    assert misfit["value"]["schema_id"] == number


@pytest.mark.parametrize(
    ("schema", "content", "error"),
    [
        (BOMB, b"\xfe\xff\xff\xff\x0f\x00", "has more than 100000 entries"),
        (RECURSIVE, b"\x02" * 5000 + b"\x00", "has more than 64 levels"),
    ],
    ids=["entries", "levels"],
)
async def test_a_few_bytes_that_stand_for_too_much(written, schema, content, error):
    number = written.registry.register(f"bomb-{len(content)}", schema)
    record = await written.one(f"bomb-{len(content)}", framed(number, content))
    assert record["value"]["error"] == error


async def test_a_registry_that_is_dead(written):
    value = framed(7, b"abcd")
    async with rest_api(written.servers, SchemaCache(["http://127.0.0.1:1"])) as rest:
        alone = Written(written.servers, written.registry, rest)
        record = await alone.one("dead", value)
        assert record["value"]["text"] == value.hex(" ")
        assert "http://127.0.0.1:1 cannot be reached" in record["value"]["error"]
        assert (await rest.ask("GET", "/api/v1/schemas/7")).status == 502


async def test_without_a_registry(written):
    async with rest_api(written.servers) as rest:
        alone = Written(written.servers, written.registry, rest)
        record = await alone.one("none", framed(7, b"abcd"), value_decoder="registry")
        assert record["value"]["error"].endswith("ottla.console.schema.registry.url is not set")
        assert (await rest.ask("GET", "/api/v1/schemas/7")).status == 404

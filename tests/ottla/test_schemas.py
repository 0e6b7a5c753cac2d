"""`ottla produce` and `consume` with schemas, and Confluent's own serializers as the other side."""

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from client.schemas.protobuf import compile_text
from support.deadlines import DEADLINE_S
from support.names import name_for
from support.polling import until_blocking
from support.schema_registry import RegistryThread

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
PROTO = 'syntax = "proto3"; package shop; message Other {} message Order { int64 id = 1; message Line {} }'


@pytest.fixture(scope="module")
def registry():
    with RegistryThread() as served:
        yield served


@pytest.fixture
def client(registry):
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def topic(on, request):
    name = name_for(request, "s")
    on("topics", "create", name, "-p", 1)
    return name


def messages(name):
    """The classes of the messages of PROTO, as a program has them that protoc has generated."""
    files = descriptor_pb2.FileDescriptorSet.FromString(compile_text(PROTO, {})).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def write(broker, topic, *values, key=None):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(DEADLINE_S) == 0


def read(broker, topic):
    """The raw value of the first record."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        return until_blocking(lambda: consumer.poll(0.1), "a record").value()
    finally:
        consumer.close()


def both_sides(client, registry, topic, kind):
    """A serializer and a deserializer of Confluent for a value {id: 7}, and this value for the serializer."""
    conf = {"auto.register.schemas": True}
    if kind == "avro":
        return AvroSerializer(client, AVRO, conf=conf), AvroDeserializer(client), {"id": 7, "note": "x"}
    if kind == "json":
        return JSONSerializer(JSON, client, conf=conf), JSONDeserializer(None, schema_registry_client=client), {"id": 7}
    registry.register(f"{topic}-value", PROTO, "PROTOBUF")
    order = messages("shop.Order")
    latest = {"auto.register.schemas": False, "use.latest.version": True, "use.deprecated.format": False}
    serializer = ProtobufSerializer(order, client, latest)
    return serializer, ProtobufDeserializer(order, {"use.deprecated.format": False}, client), order(id=7)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("avro", '{"id":7,"note":{"string":"x"}}'), ("json", '{"id":7}'), ("protobuf", '{"id":"7"}')],
)
def test_confluent_and_ottla_read_each_other(on, broker, client, registry, topic, kind, shown):
    serialize, deserialize, value = both_sides(client, registry, topic, kind)
    context = SerializationContext(topic, MessageField.VALUE)
    data = serialize(value, context)
    write(broker, topic, data, None)
    url = ("--schema-registry", registry.url)
    assert on("consume", topic, *url, "-Z", "NULL").out == f"{shown}\nNULL\n"
    first, tombstone = on("consume", topic, "--json", *url).lines
    number = int.from_bytes(data[1:5], "big")
    assert (first["value"], first["value_schema_id"], tombstone["value"]) == (json.loads(shown), number, None)

    copy = f"{topic}-copy"
    subject = f"{topic}-value"
    schema = f"{subject}#Order" if kind == "protobuf" else subject
    on("produce", copy, *url, "--value-schema", schema, stdin=shown.encode() + b"\n")
    written = read(broker, copy)
    assert written == data
    assert deserialize(written, context) == value
    by_id = f"{number}#Order" if kind == "protobuf" else number
    lines = on("consume", topic, "--json", *url).raw
    on("produce", f"{topic}-copy2", "--json", *url, "--value-schema", by_id, stdin=lines)
    assert on("consume", f"{topic}-copy2").raw == on("consume", topic).raw


@pytest.mark.parametrize(
    ("name", "text", "line", "data"),
    [
        ("order.avsc", AVRO, b'{"id":-1,"note":null}', b"\x01\x00"),
        ("order.proto#Order", PROTO, b'{"id":"5"}', b"\x08\x05"),
        ("order.json", JSON, b'{"id":5}', b'{"id":5}'),
    ],
)
def test_schemas_in_files(on, topic, tmp_path, name, text, line, data):
    (tmp_path / name.partition("#")[0]).write_text(text)
    schema = tmp_path / name
    on("produce", topic, "--value-schema", schema, "--key-schema", schema, "-K", "|", stdin=line + b"|" + line + b"\n")
    assert on("consume", topic, "--format", "%k|%v").raw == data + b"|" + data
    words = ("--value-schema", schema, "--key-schema", schema, "--key", '"id":"?-?[15]')
    assert on("consume", topic, *words, "--format", "%k|%v").raw == line + b"|" + line
    [record] = on("consume", topic, *words, "--json").lines
    assert record["key"] == record["value"] == json.loads(line)
    assert "value_schema_id" not in record


def test_records_that_do_not_fit(on, broker, registry, topic):
    number = registry.register(f"{topic}-value", AVRO)
    good = bytes([0]) + number.to_bytes(4, "big") + b"\x0e\x00"
    for broken, clue in (
        (b"plain text", "the value begins with the byte 0x70 and not with the magic byte 0: it was not written with"),
        (b"\0\0", "the value has 2 bytes, too few for the id of a schema"),
        (good + b"x", "the value does not fit its Avro schema: only 2 of its 3 bytes belong to it"),
    ):
        name = f"{topic}-{len(broken)}"
        write(broker, name, good, broken, good)
        failed = on("consume", name, "--schema-registry", registry.url, code=1)
        assert failed.err.startswith(f"ottla: {name}-0 offset 1: {clue}")
        assert failed.err.endswith(" (--keep-going prints it undecoded)\n")
        assert failed.out == '{"id":7,"note":null}\n'
        assert on("consume", name, "--schema-registry", registry.url, "-n", 1).out == '{"id":7,"note":null}\n'
        assert on("consume", name, "--schema-registry", registry.url, "-n", 1, "-o", 2).out == '{"id":7,"note":null}\n'


def test_keep_going_prints_the_rest(ottla, on, broker, registry, topic, capsysbinary):
    number = registry.register(f"{topic}-value", AVRO)
    good = bytes([0]) + number.to_bytes(4, "big") + b"\x0e\x00"
    write(broker, topic, good, b"plain text", good)
    command = [sys.executable, "-m", "ottla", "consume", topic, "-b", broker.bootstrap, "--keep-going"]
    done = subprocess.run(
        [*command, "--schema-registry", registry.url], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.stdout == '{"id":7,"note":null}\nplain text\n{"id":7,"note":null}\n'
    first, second = done.stderr.splitlines()
    assert first.startswith(f"ottla: {topic}-0 offset 1: the value begins with the byte 0x70")
    assert second == "ottla: 1 key or value did not fit, and had to be printed undecoded"
    assert done.returncode == 1


def test_an_unknown_id_ends_the_command(on, broker, registry, topic):
    write(broker, topic, b"\0\0\0\x27\x0f\x0e")
    failed = on("consume", topic, "--schema-registry", registry.url, "--keep-going", code=1)
    assert failed.err == f"ottla: the schema registry {registry.url} has no schema with the id 9999\n"


def test_keys_are_decoded_if_asked_for(on, broker, registry, topic):
    number = registry.register(f"{topic}-key", '"string"')
    key = bytes([0]) + number.to_bytes(4, "big") + b"\x02k"
    write(broker, topic, b"text", key=key)
    url = ("--schema-registry", registry.url)
    words = ("--key-schema", "registry", "--value-schema", "none", *url)
    assert on("consume", topic, "--format", "%k %v", *words).out == '"k" text'
    [record] = on("consume", topic, "--json", *words).lines
    assert (record["key"], record["key_schema_id"], record["value"]) == ("k", number, "text")
    on("produce", topic, "--key-schema", f"{topic}-key", *url, "--key", '"k"', stdin=b"more\n")
    assert [
        one["key"] for one in on("consume", topic, "--json", *words, "-g", topic, "--from-beginning", "-n", 2).lines
    ] == ["k", "k"]


def test_a_line_that_does_not_fit_ends_the_command(on, registry, topic, tmp_path):
    (tmp_path / "order.avsc").write_text(AVRO)
    words = ("produce", topic, "--value-schema", tmp_path / "order.avsc")
    for line, clue in (
        (b'{"id": "x"}', 'does not fit its Avro schema: id must be an integer of 64 bits, not "x"'),
        (b"text", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ):
        failed = on(*words, stdin=b'{"id": 1}\n' + line + b"\n", code=1).err
        assert failed.startswith("ottla: line 2 has a value that ")
        assert failed.endswith(f"{clue}; 1 record written to {topic}\n")
    generated = on(*words, "--template", '{"id": {n}, "note": "{choice:a|b}"}', "-n", 3)
    assert generated.err == f"3 records written to {topic}\n"
    assert on(*words, "--json", stdin=b'{"value": {"id": 5}}\n').err == f"1 record written to {topic}\n"


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("produce", "t", "--value-schema", "no.avsc"), "--value-schema 'no.avsc': there is no such file; the ids and"),
        (("produce", "t", "--schema-registry", "URL"), "--schema-registry needs --value-schema or --key-schema"),
        (("produce", "t", "--value-schema", "7", "--schema-registry", "localhost"), "is not a URL such as"),
        (("produce", "t", "--value-schema", "nosuch", "--schema-registry", "URL"), "has no subject nosuch"),
        (("produce", "t", "--key-schema", "777", "--schema-registry", "URL"), "has no schema with the id 777"),
        (("consume", "t", "--value-schema", "registry"), "--value-schema registry needs --schema-registry URL"),
        (("consume", "t", "--value-schema", "7", "--schema-registry", "URL"), "records name their schema themselves"),
        (("consume", "t", "--key-schema", "no.avsc"), "--key-schema 'no.avsc': there is no such file"),
        (("consume", "t", "--value-schema", "FILE.txt"), "must end with .avsc, .json, .proto or .desc"),
        (("consume", "t", "--value-schema", "FILE.avsc"), "FILE.avsc: not an Avro schema: "),
        (("consume", "t", "--value-schema", "FILE.avsc#Order"), "FILE.avsc: only a Protobuf schema has messages"),
        (("consume", "t", "--value-schema", "FILE.proto"), "FILE.proto: not a Protobuf schema: FILE.proto:1:"),
        (("consume", "t", "--value-schema", "FILE.desc"), "FILE.desc: not a set of Protobuf descriptors"),
        (("produce", "t", "--value-schema", "FILE.json"), "FILE.json: not a JSON Schema: "),
    ],
)
def test_options_that_are_refused(on, registry, tmp_path, monkeypatch, words, clue):
    monkeypatch.chdir(tmp_path)
    for suffix in ("txt", "avsc", "proto", "desc", "json"):
        (tmp_path / f"FILE.{suffix}").write_bytes(b"{]")
    assert clue in on(*(registry.url if word == "URL" else word for word in words), code=1).err


def test_a_missing_library_is_named(on, tmp_path, monkeypatch):
    for name, text, library in (
        ("a.avsc", AVRO, "fastavro"),
        ("a.json", JSON, "jsonschema"),
        ("a.proto", PROTO, "grpc_tools"),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setitem(sys.modules, library, None)
        failed = on("consume", "t", "--value-schema", tmp_path / name, code=1).err
        assert failed.endswith(f": schemas need {library}: pip install 'ottla[schemas]'\n")

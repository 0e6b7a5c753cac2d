"""Bytes and JSON that Kafka's own classes made, for every API and version, against our codec."""

import csv

import pytest

from protocol.api_keys import ApiKey, api_name
from protocol.json import from_json, to_json
from support.messages import message_classes, read_vectors, vector_files, versions
from support.reference import REFERENCE

NEWER_THAN_THE_TABLE = {"ConsumerGroupHeartbeat": 1, "ConsumerGroupDescribe": 1}  # Kafka 4.0
NEWER_RECORDS = {"ConsumerGroupRegularExpressionKey", "ConsumerGroupRegularExpressionValue"}  # Kafka 4.0


@pytest.mark.parametrize("file", vector_files())
def test_vector(file):
    lines = 0
    for cls, vector in read_vectors(file):
        version, raw = vector["version"], bytes.fromhex(vector["hex"])
        where = f"{cls.NAME} v{version} {vector['case']}"
        assert cls.is_flexible(version) == vector["flexible"], where
        message, end = cls.decode(raw, version)
        assert end == len(raw), where
        assert to_json(message, version) == vector["json"], where
        assert message.to_bytes(version).hex() == vector["hex"], where
        built = from_json(cls, vector["json"], version)
        if vector["case"] == "tagged":
            assert to_json(built, version) == vector["json"], where
        else:
            assert built.to_bytes(version).hex() == vector["hex"], where
            assert built == message, where
        lines += 1
    assert lines > 0


def test_unknown_tags_are_kept_unchanged():
    seen = 0
    for file in vector_files():
        for cls, vector in read_vectors(file):
            if vector["case"] == "tagged":
                message, _ = cls.decode(bytes.fromhex(vector["hex"]), vector["version"])
                tags = {int(tag): bytes.fromhex(value) for tag, value in vector["unknown_tags"].items()}
                assert message.unknown_tags == tags
                seen += 1
    assert seen == 254


def test_no_vector_is_missing():
    assert sum(1 for file in vector_files() for _ in read_vectors(file)) == 2345


def test_every_version_of_the_table_has_request_and_response_vectors():
    with (REFERENCE / "tables" / "api-versions.tsv").open() as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    seen = {(cls.NAME, vector["version"]) for file in vector_files() for cls, vector in read_vectors(file)}
    wanted = {
        (f"{row['name']}{kind}", version)
        for row in rows
        for version in range(int(row["min"]), int(row["max"]) + 1)
        for kind in ("Request", "Response")
    }
    assert len(rows) == 62
    assert wanted <= seen, f"no vector for {sorted(wanted - seen)}"


def test_messages_have_exactly_the_versions_of_the_table():
    with (REFERENCE / "tables" / "api-versions.tsv").open() as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    for row in rows:
        name, key = row["name"], int(row["api_key"])
        assert api_name(ApiKey(key)) == name
        for kind in ("Request", "Response"):
            cls = message_classes()[name + kind]
            newest = NEWER_THAN_THE_TABLE.get(name, int(row["max"]))
            assert key == cls.API_KEY
            assert versions(cls) == range(int(row["min"]), newest + 1), cls.NAME
            flexible = [version for version in versions(cls) if cls.is_flexible(version)]
            first = row["flexible_from"]
            assert flexible == ([] if first == "never" else [*range(int(first), newest + 1)]), cls.NAME


def test_every_declared_field_occurs_in_a_vector():
    """A field that no vector of its version shows is newer than Kafka 3.9 and must not be sent."""
    seen = set()

    def walk(cls, version, json, path):
        for field in cls.FIELDS:
            if field.json_name in json:
                seen.add((*path, field.name, version))
                value = json[field.json_name]
                if isinstance(field.element, type) and value is not None:
                    for item in value if field.kind == "array" else [value]:
                        walk(field.element, version, item, (*path, field.name))

    for file in vector_files():
        for cls, vector in read_vectors(file):
            walk(cls, vector["version"], vector["json"], (cls.NAME,))

    def declared(cls, version, path):
        for field in cls.FIELDS:
            if field.present(version):
                yield (*path, field.name, version)
                if isinstance(field.element, type):
                    yield from declared(field.element, version, (*path, field.name))

    missing = [
        field
        for cls in message_classes().values()
        if cls.NAME not in NEWER_RECORDS
        for version in versions(cls)
        if cls.NAME.removesuffix("Request").removesuffix("Response") not in NEWER_THAN_THE_TABLE or version == 0
        for field in declared(cls, version, (cls.NAME,))
        if field not in seen
    ]
    assert missing == []

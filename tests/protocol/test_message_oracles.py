"""Arbitrary messages against two other implementations: kafka-python 3 (values and bytes) and kio (bytes)."""

import io
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from protocol.error_codes import ErrorCode
from protocol.uuid import ZERO_UUID
from support.counts import count
from support.kafka_python_messages import KAFKA_PYTHON
from support.messages import message_classes, strategy, versions

pytestmark = pytest.mark.counted

FEW = settings(max_examples=count(1, 10), database=None, suppress_health_check=list(HealthCheck))
SCALARS = {"int8", "int16", "int32", "int64", "boolean", "float64", "string"}
REQUESTS_AND_RESPONSES = [cls for cls in message_classes().values() if cls.API_KEY >= 0]


def no_special_fields(field):
    """Also leaves out unknown tags, which the other two libraries drop."""
    return


def as_kafka_python_uuid(ours):
    """It gives None for the zero UUID, which stands for "no UUID" on the wire, and writes None as that."""
    return None if ours == ZERO_UUID else UUID(bytes=ours)


def assert_same(field, ours, theirs, version, path):
    if field.kind == "uuid":
        assert as_kafka_python_uuid(ours) == theirs, path
    elif ours is None or theirs is None:
        assert ours is theirs, path
    elif field.kind == "array" and isinstance(field.element, type):
        assert len(ours) == len(theirs), path
        for one, other in zip(ours, theirs, strict=True):
            assert_same_struct(one, other, version, path)
    elif field.kind == "array" and field.element == "uuid":
        assert [as_kafka_python_uuid(item) for item in ours] == list(theirs), path
    elif field.kind == "struct":
        assert_same_struct(ours, theirs, version, path)
    else:
        assert ours == theirs, path


def assert_same_struct(ours, theirs, version, path):
    for field in ours.FIELDS:
        # kafka-python gives a set of operations in place of the bit field
        if field.present(version) and not field.name.endswith("authorized_operations"):
            where = f"{path}.{field.name}"
            assert_same(field, getattr(ours, field.name), getattr(theirs, field.name), version, where)


@pytest.mark.parametrize("name", sorted(KAFKA_PYTHON.keys() & message_classes().keys()))
def test_kafka_python_reads_and_writes_the_same(name):
    cls, other = message_classes()[name], KAFKA_PYTHON[name]
    low, high = other._valid_versions
    for version in range(max(low, cls.MIN_VERSION), min(high, cls.MAX_VERSION) + 1):
        check_kafka_python(cls, other, version)


def check_kafka_python(cls, other, version):
    @FEW
    @given(message=strategy(cls, version, cls.is_flexible(version), no_special_fields))
    def check(message):
        raw = message.to_bytes(version)
        theirs = other.decode(raw, version=version)
        assert_same_struct(message, theirs, version, cls.NAME)
        theirs._header = None  # what its own constructor would have set
        assert theirs.encode(version=version) == raw

    check()


def what_kio_can_hold(field):
    """It turns error codes into an enum, and times into timedelta and datetime: their ranges are narrower."""
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.kind in ("int32", "int64") and (field.name.endswith("_ms") or "timestamp" in field.name):
        return st.integers(0, 2**31 - 1)
    return None


def kio_entity(cls, version):
    load = load_request_schema if cls.NAME.endswith("Request") else load_response_schema
    try:
        return load(cls.API_KEY, version)
    except Exception:
        return None  # it has the versions of Kafka 4 only


@pytest.mark.parametrize("cls", REQUESTS_AND_RESPONSES, ids=lambda cls: cls.NAME)
def test_kio_reads_and_writes_the_same(cls):
    for version in versions(cls):
        entity = kio_entity(cls, version)
        if entity is not None:
            check_kio(cls, version, entity_reader(entity), entity_writer(entity))


def check_kio(cls, version, read, write):
    @FEW
    @given(message=strategy(cls, version, cls.is_flexible(version), what_kio_can_hold))
    def check(message):
        raw = message.to_bytes(version)
        theirs, size = read(raw, 0)
        assert size == len(raw)
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == raw

    check()


@pytest.mark.parametrize("name", sorted(KAFKA_PYTHON.keys() & message_classes().keys()))
def test_defaults_are_those_of_kafka_python(name):
    """Of structs as well: recorded messages with nothing set have no structs in them."""

    def compare(cls, other):
        for field in cls.FIELDS:
            theirs = other.get(field.name)
            where = f"{name}: {cls.NAME}.{field.name}"
            if theirs is None or field.name.endswith("authorized_operations"):
                continue
            if (name, field.name) == ("ListOffsetsRequest", "replica_id"):
                continue  # kafka-python says -1, Kafka 0
            if field.kind in ("array", "struct") and isinstance(field.element, type):
                compare(field.element, theirs.fields)
            if field.kind in SCALARS or (field.default is None and field.kind != "record_set"):
                assert field.default == theirs.default, where

    compare(message_classes()[name], KAFKA_PYTHON[name]._struct.fields)


def test_the_oracles_cover_most_of_our_messages():
    assert len(KAFKA_PYTHON.keys() & message_classes().keys()) >= 95
    covered = sum(kio_entity(cls, version) is not None for cls in REQUESTS_AND_RESPONSES for version in versions(cls))
    assert covered >= 460


def test_error_codes_are_those_of_kio():
    assert {code.value: code.name.lower() for code in ErrorCode}.items() <= {
        code.value: code.name.lower() for code in KioErrorCode
    }.items()

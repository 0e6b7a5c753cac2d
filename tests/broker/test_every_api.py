"""Every API of the table in every version, over a raw socket: answered, decoded to the last byte, connection open.

Each is sent as its defaults, with empty and with null lists, and filled with values that mean something; then
whatever bytes the recorded vectors of Apache Kafka hold.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial

import pytest

from broker.errors import RequestError
from broker.metrics import BrokerMetrics
from broker.requests.api_table import API_TABLE
from broker.requests.dispatcher import Dispatcher
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.fields import Field
from protocol.json import from_json
from protocol.message import Message
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from support.broker import running_broker
from support.filled_messages import filled
from support.messages import read_vectors, vector_files
from support.wire import batch, create_topic, decode_answer, fetch, frame, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = [(row, version) for row in API_TABLE for version in range(row.min_version, row.max_version + 1)]
WITHOUT_ROOM = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)}
"""An answer that names no log directory has no error code, as in Kafka."""
CONTROLLER = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}


def fitting(topic_id: bytes, field: Field):
    """A value that means something to the broker of these tests, by the name of the field."""
    by_name = {
        "timeout_ms": 300,
        "max_wait_ms": 5,
        "topic_id": topic_id,
        "num_partitions": 2,
        "replication_factor": 1,
        "count": 3,
        "resource_type": 2,
        "acks": -1,
        "controller_id": 0,
        "controller_epoch": 1,
        "broker_epoch": -1,
        "leader_epoch": 0,
        "fetch_offset": 0,
        "max_bytes": 1000,
        "partition_max_bytes": 1000,
        "min_bytes": 1,
        "session_epoch": -1,
        "endpoint_type": 1,
        "replica_id": -1,
        "timestamp": -1,
        "client_software_name": "sweep",
        "client_software_version": "1",
        "producer_id": -1,
        "producer_epoch": -1,
    }
    if field.name in by_name:
        return by_name[field.name]
    if field.kind == "string":
        is_topic = "topic" in field.name or field.name in ("name", "resource_name")
        return "sweep" if is_topic else "x"
    if field.kind == "boolean":
        return True
    if field.kind == "record_set":
        return bytes(batch(b"v"))
    if field.kind == "byte_string":
        return b"b"
    if field.kind == "uuid":
        return topic_id
    return 0


def shapes(cls: type[Message], version: int, topic_id: bytes):
    yield cls()
    for lists, nulls in itertools.product((0, 1, 2), (False, True)):
        yield filled(cls, version, partial(fitting, topic_id), text="sweep", lists=lists, nulls=nulls)


@pytest.mark.parametrize(("row", "version"), ROWS, ids=[f"{row.name}-{version}" for row, version in ROWS])
async def test_every_version_is_answered(broker, client, row, version):
    topic_id = broker.metadata.snapshot.topics["sweep"].topic_id if "sweep" in broker.metadata.snapshot.topics else None
    if topic_id is None:
        topic_id = await create_topic(client, "sweep")
    for request in shapes(row.request, version, topic_id):
        if row.key == ApiKey.DELETE_TOPICS:
            rename(request)
        if row.key == ApiKey.CONTROLLED_SHUTDOWN:
            request.broker_id = 99  # else this one would be relieved, and lead nothing new
        if row.key in CONTROLLER:
            request.controller_epoch = -5  # from a controller of the past: nothing of it may be done
        if isinstance(request, ProduceRequest) and request.acks == 0:
            request.acks = 1
        if isinstance(request, DescribeClientQuotasRequest):
            match_any(request)
        name_kinds(request)
        answer = await client.call(request, version)
        if row.key in CONTROLLER:
            assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes_of(answer), (request, answer)
    assert (await client.call(fetch("sweep"), 12)).responses[0].partitions[0].error_code == 0


def match_any(request):
    """Use a match type that exists: for others the error is UNKNOWN_SERVER_ERROR, as in Kafka."""
    for component in request.components:
        component.match_type = 2


def name_kinds(request):
    """Replace UNKNOWN (0) in requests about ACLs, which closes the connection, as in Kafka."""
    if request.API_KEY not in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
        return
    for one in (request, *getattr(request, "creations", ()), *getattr(request, "filters", ())):
        for name in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
            if not getattr(one, name, 1) or not getattr(one, f"{name}_filter", 1):
                setattr(one, name if hasattr(one, name) else f"{name}_filter", 3)
        if not getattr(one, "pattern_type_filter", 1):
            one.pattern_type_filter = 3


def rename(request):
    """Keep the topic that the other tests use."""
    request.topic_names = ["other" for _ in request.topic_names]
    for topic in request.topics:
        topic.name, topic.topic_id = ("other", bytes(16)) if topic.name else (None, b"o" * 16)


def codes_of(message, version=None):
    """Every error code in an answer, of those that the version has room for."""
    for field in message.FIELDS:
        if version is not None and not field.present(version):
            continue
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, Message):
            yield from codes_of(value, version)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, Message):
                    yield from codes_of(one, version)


def harmless(request, version):
    """Random contents, but no long waits, no million partitions, and always an answer."""
    for name in ("timeout_ms", "max_wait_ms"):
        if hasattr(request, name):
            setattr(request, name, 1)
    if isinstance(request, FetchRequest):
        request.session_epoch = -1
    if isinstance(request, DescribeClientQuotasRequest):
        match_any(request)
    if isinstance(request, CreateTopicsRequest):
        for topic in request.topics:
            topic.num_partitions = min(topic.num_partitions, 10)
    if isinstance(request, CreatePartitionsRequest):
        for topic in request.topics:
            topic.count = min(topic.count, 10)
    if isinstance(request, ProduceRequest) and request.acks == 0:
        request.acks = 1
    name_kinds(request)
    if request.API_KEY == ApiKey.CONTROLLED_SHUTDOWN and request.broker_id == 0:
        request.broker_id = 99
    if request.API_KEY in CONTROLLER:
        request.controller_epoch = min(request.controller_epoch, 0)


async def test_recorded_vectors_as_requests(tmp_path):
    """Random contents in every field: each is answered, with an error that has a name."""
    served = {int(row.key) for row in API_TABLE}
    files = [file for file in vector_files() if file[:2].isdigit() and int(file.split("-")[0]) in served]
    assert len(files) == len(served)
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        answered = 0
        for cls, vector in itertools.chain.from_iterable(read_vectors(file) for file in files):
            if vector["kind"] != "request":
                continue
            version = vector["version"]
            request = from_json(cls, vector["json"], version)
            harmless(request, version)
            answer = await client.call(request, version)
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes_of(answer), (request, answer)
            answered += 1
        assert answered > 250
        await create_topic(client, "still-alive")


@pytest.mark.parametrize("row", API_TABLE, ids=[row.name for row in API_TABLE])
async def test_an_error_raised_by_a_handler_is_answered_in_every_api_with_an_error_field(broker, row):
    def refuse(request, context):
        raise RequestError(ErrorCode.REQUEST_TIMED_OUT, "too late")

    dispatcher = Dispatcher([(row, row.handler(broker.services))], BrokerMetrics(), asyncio.ensure_future)
    dispatcher._routes[row.key].handle = refuse
    for version in range(row.min_version, row.max_version + 1):
        request = filled(row.request, version, partial(fitting, b"i" * 16), text="sweep", lists=2)
        pieces = dispatcher.handle_frame(memoryview(frame(request, version))[4:], None)
        _, answer = decode_answer(b"".join(pieces)[4:], row.key, version)
        named = set(codes_of(answer, version))
        assert ErrorCode.REQUEST_TIMED_OUT in named or (row.key, version) in WITHOUT_ROOM, (version, answer)
        assert named <= {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE}, (version, answer)

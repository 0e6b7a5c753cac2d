"""A user without any ACL, and every API that is served: no API lets them see or change anything.

Each request names a topic, a group and a transactional id that exist. An API that forgot to ask for permission would
answer without an error of authorization.
"""

from __future__ import annotations

from functools import partial

import pytest
import pytest_asyncio

from broker.requests.api_table import API_TABLE
from protocol.api_keys import ApiKey
from protocol.fields import Field
from protocol.json import to_json
from protocol.message import Message
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from support.authorization import acls_of, allow, authorized_broker, authorizer_of, client_of
from support.filled_messages import filled
from support.wire import append, batch, create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "secret"
"""The name of the topic, the group and the transactional id."""
OPEN = {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
OWNERS = {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.CREATE_DELEGATION_TOKEN}
FILTERED = {
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_LOG_DIRS,
}
AUTHORIZATION_CODES = {29, 30, 31, 53, 65}
ROWS = [
    (api, version)
    for api in API_TABLE
    if api.key not in OPEN | OWNERS
    for version in range(api.min_version, api.max_version + 1)
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            await admin.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[SECRET]))
            await admin.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[SECRET]))
            await create_topic(admin, SECRET)
            await append(admin, SECRET, batch(b"hush"))
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            topic = OffsetCommitRequestTopic(name=SECRET, partitions=[partition])
            await admin.call(OffsetCommitRequest(group_id=SECRET, generation_id_or_member_epoch=-1, topics=[topic]), 8)
            await authorizer_of(running).create([allow("User:bob", "All", "Topic", "t")])
        yield running


def existing(topic_id: bytes, field: Field):
    """A value that names something that exists."""
    numbers = {
        "acks": -1,
        "replica_id": -1,
        "session_epoch": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "resource_type": 2,
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "resource_pattern_type": 3,
        "operation": 3,
        "permission_type": 3,
        "timestamp": -1,
        "partition_max_bytes": 1000,
        "max_bytes": 1000,
        "timeout_ms": 1000,
    }
    if field.kind == "string":
        return "secret-type" if field.name in ("protocol_type", "protocol_name") else SECRET
    if field.kind == "boolean":
        return True
    if field.kind == "record_set":
        return bytes(batch(b"v"))
    if field.kind == "byte_string":
        return b"b"
    if field.kind == "uuid":
        return topic_id
    return numbers.get(field.name, 0)


def error_codes(answer):
    if isinstance(answer, dict):
        for name, content in answer.items():
            if name.endswith("rrorCode"):
                yield content
            else:
                yield from error_codes(content)
    elif isinstance(answer, list):
        for content in answer:
            yield from error_codes(content)


def request_for(row, version, topic_id):
    request = filled(row.request, version, partial(existing, topic_id), text=SECRET)
    if row.key in (ApiKey.DELETE_TOPICS, ApiKey.METADATA):
        for topic in request.topics or ():
            if isinstance(topic, Message) and version >= 6 and row.key == ApiKey.DELETE_TOPICS:
                topic.name = None
            elif version >= 10:
                topic.topic_id = bytes(16)
    return request


@pytest.mark.parametrize(("row", "version"), ROWS, ids=[f"{row.name}-{version}" for row, version in ROWS])
async def test_no_api_allows_anything(broker, row, version):
    topics_before, acls_before = dict(broker.metadata.snapshot.topics), acls_of(broker)
    end_before = broker.services.logs.get(SECRET, 0).log_end_offset
    topic_id = broker.metadata.snapshot.topics[SECRET].topic_id
    async with client_of(broker, "User:nobody") as nobody:
        answer = to_json(await nobody.call(request_for(row, version, topic_id), version), version)
    codes = set(error_codes(answer))
    if row.key in FILTERED or (row.key == ApiKey.OFFSET_FETCH and version == 1):
        lists = [one for name, one in answer.items() if isinstance(one, list) and name != "unknownStateFilters"]
        assert not any(lists), answer
    else:
        assert codes & AUTHORIZATION_CODES, answer
    assert acls_of(broker) == acls_before
    assert dict(broker.metadata.snapshot.topics).keys() == topics_before.keys()
    assert broker.services.logs.get(SECRET, 0).log_end_offset == end_before


async def test_what_is_open_tells_nothing_about_topics(broker):
    async with client_of(broker, "User:nobody") as nobody:
        for row in API_TABLE:
            if row.key in OPEN and row.key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                answer = await nobody.call(row.request(**software(row)), row.max_version)
                assert SECRET not in repr(answer)


def software(row):
    is_versions = row.key == ApiKey.API_VERSIONS
    return {"client_software_name": "test", "client_software_version": "1"} if is_versions else {}


async def test_all_topics_and_all_offsets_are_empty_lists(broker):
    async with client_of(broker, "User:nobody") as nobody:
        metadata = next(row.request for row in API_TABLE if row.key == ApiKey.METADATA)
        for version in range(13):
            topics = [] if version == 0 else None
            answer = await nobody.call(metadata(topics=topics), version)
            assert answer.topics == [], version
        await authorizer_of(broker).create([allow("User:nobody", "Describe", "Group", SECRET)])
        groups = [OffsetFetchRequestGroup(group_id=SECRET, topics=None)]
        (group,) = (await nobody.call(OffsetFetchRequest(groups=groups), 9)).groups
        assert (group.error_code, group.topics) == (0, [])
        answer = await nobody.call(OffsetFetchRequest(group_id=SECRET, topics=None), 7)
        assert (answer.error_code, answer.topics) == (0, [])


async def test_an_authorizer_that_fails_denies(broker, monkeypatch, caplog):
    def broken(*args):
        raise RuntimeError("no decision today")

    monkeypatch.setattr(authorizer_of(broker), "allows", broken)
    authorizer_of(broker).changed()
    async with client_of(broker, "User:admin") as admin:
        answer = await append(admin, SECRET, batch(b"v"))
    assert answer.error_code == 29
    assert "the authorizer failed; the operation is denied" in caplog.text
    monkeypatch.undo()
    authorizer_of(broker).changed()

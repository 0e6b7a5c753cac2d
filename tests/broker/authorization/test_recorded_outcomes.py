"""Every outcome that was recorded from Apache Kafka: a request with each set of ACLs, and what it may and may not do.

Compared are names, error codes of authorization, and authorized operations. Other codes differ where the state of the
broker differs from that of the recording.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct

import pytest
import pytest_asyncio

from broker.requests.api_table import API_TABLE
from protocol.api_keys import response_class
from protocol.error_codes import ErrorCode
from protocol.headers import ResponseHeader, response_header_version
from protocol.json import to_json
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.uuid import ZERO_UUID
from support.authorization import allow, authorized_broker, client_of, put_acls
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.reference import REFERENCE
from support.wire import ConnectionClosedError, wire_client
from support.zookeeper import new_chroot, shared_zookeeper

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALICE = "User:alice"
AUTHORIZATION_CODES = {29, 30, 31, 53, 55, 65, 100}
NAMES = {"name", "topicName", "topic", "groupId", "transactionalId", "key", "resourceName", "resourceType"}
UNTOLD = {"recordErrors", "brokers", "apiKeys", "configs", "nodeEndpoints", "oldStyleOffsets", "activeProducers"}
NOT_IN_ZOOKEEPER_MODE = {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}
"""Kafka refuses these in ZooKeeper mode before it asks for permission; Ottla serves them (test_new_groups below)."""
OF_TOKENS = "describe-delegation-token"
"""These cases tell which tokens the recording had: see tests/broker/authentication/test_tokens.py."""
NOT_TRIED = {("delete-topics-by-id-v6", "Topic:Alter"), ("join-group-v0", "Group:All")}
"""The first was recorded without the name, although Alter implies Describe in every other case of the recording. In the
second, a second member joins: it waits until the session of the first has ended, after six seconds."""
SERVED = {int(api.key): api for api in API_TABLE}


def cases():
    found = {}
    with (REFERENCE / "security" / "authorization.jsonl").open() as lines:
        for line in lines:
            one = json.loads(line)
            found.setdefault(one["case"], []).append(one)
    return found


CASES = cases()


def essence(value, key=""):
    """What a response tells about authorization; lists in any order."""
    if isinstance(value, dict):
        if str(value.get("name")).startswith("auto"):
            value = value | {"partitions": []}  # of a new topic: whether it has leaders is a matter of time
        told = ((name, essence(one, name)) for name, one in sorted(value.items()) if is_told(name, one))
        return tuple((name, one) for name, one in told if one != 0)
    if isinstance(value, list):
        value = [one for one in value if not is_of_the_recording(one)]
        return tuple(sorted((essence(one, key) for one in value), key=repr))
    if key.endswith("rrorCode"):
        return value if value in AUTHORIZATION_CODES else 0
    return value


def is_of_the_recording(one):
    """Whether an element of a list is a group that only the recording had."""
    return isinstance(one, dict) and str(one.get("groupId")).startswith("gj")


def is_told(name, value):
    if isinstance(value, dict | list):
        return name not in UNTOLD
    return name in NAMES or name.endswith(("rrorCode", "uthorizedOperations"))


UNKNOWN_ID = "AAAAAAAAQwGAAAAAAAAABA"
KEPT_TOPICS = {"t1", "__consumer_offsets", "__transaction_state"}


def bindings_of(text, resources):
    """The ACLs that the recording calls "Group:Read+Topic:Read", on the resources of its case."""
    for one in () if text == "none" else text.split("+"):
        kind, operation = one.split(":")
        for pattern in resources[kind]:
            pattern_type, _, name = pattern.partition(" ")
            yield allow(ALICE, operation, kind, name, pattern_type)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["embedded", "zookeeper"])
async def broker(request, tmp_path_factory):
    overrides = {"auto_create_topics_enable": "true", "num_partitions": "2"}
    if request.param == "zookeeper":
        overrides["zookeeper_connect"] = f"{shared_zookeeper().connect}{new_chroot()}"
        overrides |= {f"{topic}_replication_factor": "1" for topic in ("offsets_topic", "transaction_state_log")}
        overrides |= {"transaction_state_log_min_isr": "1", "group_initial_rebalance_delay_ms": "0"}
    async with authorized_broker(tmp_path_factory.mktemp("data"), **overrides) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(broker):
    async with wire_client(broker.bootstrap_servers) as client:
        await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g1"]))
        await client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x1"]))
        await restore(broker, client)
        await client.call(InitProducerIdRequest(transactional_id="x1", transaction_timeout_ms=60_000))
        yield client


async def restore(broker, admin):
    """Give the cluster the topics and groups of the recording: t1 with two partitions, del; g1 and gnew."""
    registry = broker.services.registry_access.registry

    async def knows_all_topics():
        return set(broker.metadata.snapshot.topics) == set(await registry.children("/brokers/topics"))

    await until(knows_all_topics, "the broker knows the topics that the last request created")
    topics = broker.metadata.snapshot.topics
    extra = [name for name in topics if name not in {*KEPT_TOPICS, "del"}]
    if extra:
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in extra]
        await admin.call(DeleteTopicsRequest(topics=states, timeout_ms=DEADLINE_MS))
    missing = [name for name in ("t1", "del") if name not in topics]
    if missing:
        new = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in missing]
        answer = await admin.call(CreateTopicsRequest(topics=new, timeout_ms=DEADLINE_MS))
        assert not any(topic.error_code for topic in answer.topics), answer
    for group in ("g1", "gnew"):
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        commit = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name="t1", partitions=[partition])],
        )
        await admin.call(commit)


async def begin(admin, transactional_id):
    """Begin a transaction with partition t1-0."""
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    producer = await admin.call(init)
    while producer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:  # the transaction before is being aborted
        producer = await admin.call(init)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t1", partitions=[0])],
    )
    (topic,) = (await admin.call(added, 3)).results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == 0


def frame_of(one, topics):
    """The recorded frame with the ids of this broker's topics."""
    data = bytes.fromhex(one["request"])
    known = topics["del" if one["case"] == "delete-topics-by-id-v6" else "t1"].topic_id
    for recorded in topic_ids(one["request_json"]):
        data = data.replace(recorded, known)
    return struct.pack(">i", len(data)) + data


def topic_ids(value):
    if isinstance(value, dict):
        if value.get("topicId") not in (None, UNKNOWN_ID):
            yield base64.urlsafe_b64decode(value["topicId"] + "==")
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from topic_ids(one)


async def answer_of(client, one, frame):
    client.send_raw(frame)
    if one["response"] is None and one.get("connection") == "open":
        return None
    try:
        data = await client.receive_raw()
    except ConnectionClosedError:
        return "closed"
    key, version = one["api_key"], one["api_version"]
    _, offset = ResponseHeader.decode(data, response_header_version(key, version))
    message, end = response_class(key).decode(data, version, offset)
    assert end == len(data)
    return to_json(message, version)


OUTCOMES = [
    one
    for outcomes in CASES.values()
    for one in outcomes
    if one["api_key"] in SERVED
    and one["api_name"] not in NOT_IN_ZOOKEEPER_MODE
    and not one["case"].startswith(OF_TOKENS)
]


@pytest.mark.parametrize("one", OUTCOMES, ids=[f"{one['case']}-{one['outcome']}" for one in OUTCOMES])
async def test_an_outcome(broker, admin, one):
    """With each set of ACLs that gave this outcome in Kafka."""
    resources = CASES[one["case"]][0]["resources"]
    expected = "closed" if one.get("connection") == "closed" else one["response_json"]
    sets = [acls for acls in one["acls"] if (one["case"], acls) not in NOT_TRIED]
    if one["case"] == "describe-transactions":
        await begin(admin, "x1")
    found = []
    async with contextlib.AsyncExitStack() as connections:
        client = None
        for acls in sets:
            if client is None or expected in ("closed", None):
                client = await connections.enter_async_context(client_of(broker, ALICE))
            put_acls(broker, bindings_of(acls, resources))
            answer = await answer_of(client, one, frame_of(one, broker.metadata.snapshot.topics))
            found.append((acls, essence(answer)))
            if one["outcome"]:
                await restore(broker, admin)
    assert found == [(acls, essence(expected)) for acls in sets]

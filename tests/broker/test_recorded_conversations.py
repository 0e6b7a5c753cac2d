"""What Apache Kafka 3.9 answered, asked again: our broker gives the same fields, error cases included.

Left out of the comparison is what belongs to a run: brokers and their ports, cluster and topic ids, session ids, and
the wording of error messages (whether there is one is compared).
"""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api_keys import ApiKey
from protocol.json import to_json
from protocol.message import Message
from protocol.messages.fetch import FetchRequest
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.record_batch import iter_batches, set_base_offset
from protocol.uuid import uuid_from_string
from support.broker import running_broker
from support.wire import (
    NOW_MS,
    WireClient,
    append,
    batch,
    create_topic,
    produce,
    recorded_pairs,
    request_of,
    response_of,
    wire_client,
)

SERVED = {"ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"}
NEWER_THAN_RECORDED = {ApiKey.CONSUMER_GROUP_HEARTBEAT: 1, ApiKey.CONSUMER_GROUP_DESCRIBE: 1}  # as in Kafka 4.0
RECORDED_ID = uuid_from_string("Lavqz_3dRVWLFNg4VAo1Lw")
OF_A_RUN = {"sessionId", "topicId", "brokers", "clusterId", "controllerId", "nodeEndpoints", "nodeId", "host", "port"}


def comparable(message: Message, version: int) -> Any:
    """The JSON of an answer without what differs between two runs."""
    return _plain(to_json(message, version))


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _plain(one, key) for key, one in value.items()}
    if isinstance(value, list) and name not in OF_A_RUN:
        return [_plain(one) for one in value]
    if name in OF_A_RUN:
        return bool(value) if not isinstance(value, str) else "text"
    if name in ("errorMessage", "batchIndexErrorMessage"):
        return value is None
    return value


def ours(request: Message, topic_id: bytes) -> Message:
    """A recorded request with our topic's id in place of the recorded one."""
    if isinstance(request, FetchRequest | MetadataRequest):
        for topic in request.topics or []:
            if topic.topic_id == RECORDED_ID:
                topic.topic_id = topic_id
    return request


def only_partition_0(answer: Message) -> None:
    """The recorded topic had a partition on another broker; ours has only the first."""
    if isinstance(answer, MetadataResponse):
        answer.topics = [topic for topic in answer.topics if not topic.name.startswith("_")]
        for topic in answer.topics:
            topic.partitions = topic.partitions[:1]


def without_padding(answer: Message, expected: Message) -> None:
    """Kafka fills a down-converted answer up to the size that it had announced: a message cut off, of zeros."""
    mine, theirs = (message.responses[0].partitions[0] for message in (answer, expected))
    padding = bytes(theirs.records[len(mine.records) :])
    assert padding[:8] == b"\xff" * 8
    assert not any(padding[12:])
    theirs.records = theirs.records[: len(mine.records)]


async def test_version_sweep(tmp_path):
    pairs = [pair for pair in recorded_pairs("version-sweep.jsonl") if pair[0]["api_name"] in SERVED]
    fetched = next(response_of(r) for q, r in pairs if q["api_name"] == "Fetch" and q["api_version"] == 12)
    stored = {one.base_offset: bytes(one.buffer) for one in iter_batches(fetched.responses[0].partitions[0].records)}
    assert sorted(stored) == list(range(12))
    async with (
        running_broker(tmp_path / "data", auto_create_topics_enable="false") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        topic_id = await create_topic(client, "sweep")
        end_offset = 0
        compared = 0
        for asked, recorded in pairs:
            version = asked["api_version"]
            expected = response_of(recorded)
            if asked["api_name"] in ("Metadata", "ApiVersions"):
                if version == 0 and asked["decoded"].get("topics") == []:
                    continue  # all topics of that cluster
                if asked["api_name"] == "Metadata" and asked["decoded"]["topics"] is None:
                    continue
            upto = 12 if asked["api_name"] not in ("Produce", "Metadata", "ApiVersions") else end_offset
            if asked["api_name"] == "Produce":
                upto = expected.responses[0].partition_responses[0].base_offset
            while end_offset < upto:  # not all of the recorded conversation was kept
                data = bytearray(stored[end_offset])
                set_base_offset(data, 0, 0)
                assert (await append(client, "sweep", data)).base_offset == end_offset
                end_offset += 1
            answer = await client.call(ours(request_of(asked), topic_id), version)
            if asked["api_name"] == "Produce":
                end_offset += 1
            only_partition_0(expected)
            if asked["api_name"] == "ApiVersions":
                mine = {row.api_key: row for row in answer.api_keys}
                theirs = {row.api_key: row for row in expected.api_keys}
                assert mine.keys() <= theirs.keys()
                for key, row in mine.items():
                    newest = NEWER_THAN_RECORDED.get(key, theirs[key].max_version)
                    assert (row.min_version, row.max_version) == (theirs[key].min_version, newest)
                answer.api_keys = expected.api_keys = []
            if asked["api_name"] == "Fetch" and version < 4:
                without_padding(answer, expected)
            assert comparable(answer, version) == comparable(expected, version), (asked["api_name"], version)
            compared += 1
        assert compared == 33


async def lose_leadership(broker: Any, client: WireClient, topic: str, topic_id: bytes) -> None:
    """Tell the broker, as its controller, that broker 7 leads partition 0 now, and that it has no replica any more."""
    endpoint = UpdateMetadataEndpoint(host="127.0.0.1", port=1, listener="PLAINTEXT", security_protocol=0)
    alive = [UpdateMetadataBroker(id=number, endpoints=[endpoint], rack=None) for number in (0, 7)]
    fields = {
        "partition_index": 0,
        "controller_epoch": 100,
        "leader": 7,
        "leader_epoch": 3,
        "isr": [7],
        "replicas": [7],
    }
    update = UpdateMetadataRequest(
        controller_id=0,
        controller_epoch=100,
        live_brokers=alive,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=topic_id,
                partition_states=[UpdateMetadataPartitionState(zk_version=9, offline_replicas=[], **fields)],
            )
        ],
    )
    assert (await client.call(update)).error_code == 0
    gone = StopReplicaPartitionState(partition_index=0, leader_epoch=3, delete_partition=True)
    stop = StopReplicaRequest(
        controller_id=0,
        controller_epoch=100,
        topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=[gone])],
    )
    answer = await client.call(stop)
    assert answer.partition_errors[0].error_code == 0


ERROR_PAIRS = {pair[0]["pair"]: pair for pair in recorded_pairs("errors.jsonl")}
OTHER_CLUSTER = {848, 851, 852, 853, 856, 857, 858, 859, 860, 863, 864, 865, 868, 869, 870, 873, 874, 875, 876, 877}
NOT_LEADER = {878, 881, 882, 883}
MIN_ISR = {1141, 1142}


async def test_errors(tmp_path):
    # Broker 7, which it would tell of its end, is made up.
    alone = {"controlled_shutdown_enable": "false", "auto_create_topics_enable": "false"}
    async with (
        running_broker(tmp_path / "data", **alone) as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        topic_id = await create_topic(client, "sweep")
        await create_topic(client, "tiny-limit", max_message_bytes="200")
        await create_topic(client, "min-isr-3-of-1", min_insync_replicas="3")
        await create_topic(client, "compact-only", cleanup_policy="compact")
        for _ in range(12):
            await append(client, "sweep", batch(b"v", timestamp=NOW_MS))
        compared = set()
        for number, (asked, recorded) in ERROR_PAIRS.items():
            if number not in OTHER_CLUSTER | {847} | NOT_LEADER:
                continue
            if number == min(NOT_LEADER):
                await lose_leadership(broker, client, "sweep", topic_id)
            request = ours(request_of(asked), topic_id)
            version = asked["api_version"]
            expected = response_of(recorded)
            if number == 876:
                message = expected.topics[1].error_message
                assert message is not None
            if number in NOT_LEADER:
                for topic in expected.responses:
                    for one in getattr(topic, "partition_responses", None) or topic.partitions:
                        if one.current_leader.leader_id >= 0:
                            one.current_leader.leader_id, one.current_leader.leader_epoch = 7, 3
            answer = await client.call(request, version)
            assert comparable(answer, version) == comparable(expected, version), number
            compared.add(number)
        assert compared == OTHER_CLUSTER | {847} | NOT_LEADER
        leader_hint = await client.call(produce("sweep", batch(b"v")), 11)
        assert [(node.node_id, node.port) for node in leader_hint.node_endpoints] == [(7, 1)]


async def test_api_versions_99_gets_the_recorded_answer(tmp_path):
    asked, recorded = ERROR_PAIRS[846]
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        frame = bytes.fromhex(asked["frame"])
        client.send_raw(len(frame).to_bytes(4, "big") + frame)
        assert (await client.receive_raw()).hex() == recorded["frame"]


@pytest.mark.parametrize("number", sorted(MIN_ISR))
async def test_min_insync_replicas_with_a_shrunken_isr(tmp_path, number):
    asked, recorded = ERROR_PAIRS[number]
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        topic_id = await create_topic(client, "min-isr", min_insync_replicas="2")
        state = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=100,
            leader=0,
            leader_epoch=3,
            isr=[0],
            replicas=[0, 7],
            partition_epoch=9,
        )
        become = LeaderAndIsrRequest(
            controller_id=0,
            controller_epoch=100,
            topic_states=[LeaderAndIsrTopicState(topic_name="min-isr", topic_id=topic_id, partition_states=[state])],
        )
        assert (await client.call(become)).topics[0].partition_errors[0].error_code == 0
        answer = await client.call(request_of(asked), asked["api_version"])
        assert comparable(answer, asked["api_version"]) == comparable(response_of(recorded), asked["api_version"])


def test_every_recorded_error_of_a_served_api_is_replayed():
    groups_and_transactions = {
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.SYNC_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.OFFSET_COMMIT,
    }
    left = {number for number, (asked, _) in ERROR_PAIRS.items() if asked["api_key"] not in groups_and_transactions}
    assert left == OTHER_CLUSTER | NOT_LEADER | MIN_ISR | {846, 847}

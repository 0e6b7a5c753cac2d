"""Who coordinates a key; and what a group that nobody has seen has committed: nothing."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from support.wire import recorded_pairs, request_of, response_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
GROUP, TRANSACTION = 0, 1


@pytest.mark.parametrize("version", range(7))
async def test_this_broker_coordinates_a_group(broker, client, version):
    keys = {"coordinator_keys": ["g", "h"]} if version >= 4 else {"key": "g"}
    answer = await client.call(FindCoordinatorRequest(key_type=GROUP, **keys), version)
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    found = answer.coordinators if version >= 4 else [answer]
    assert [one.error_code for one in found] == [0] * len(found)
    assert {(one.node_id, one.host, one.port) for one in found} == {(0, host, int(port))}
    assert [one.key for one in answer.coordinators] == (["g", "h"] if version >= 4 else [])


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_transactional_id_is_coordinated_by_the_leader_of_its_partition(client, version):
    keys = {"coordinator_keys": ["t"]} if version >= 4 else {"key": "t"}
    answer = await client.call(FindCoordinatorRequest(key_type=TRANSACTION, **keys), version)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (0, 0)


@pytest.mark.parametrize("version", range(10))
async def test_a_new_group_has_no_committed_offsets(client, version):
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 3])]
        groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in ("g", "h")]
        answer = await client.call(OffsetFetchRequest(groups=groups), version)
        assert [(group.group_id, group.error_code) for group in answer.groups] == [("g", 0), ("h", 0)]
        found = [group.topics for group in answer.groups]
    else:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 3])]
        answer = await client.call(OffsetFetchRequest(group_id="g", topics=topics), version)
        assert answer.error_code == 0
        found = [answer.topics]
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else ErrorCode.NONE  # the oldest way to say nothing
    for topics in found:
        assert [topic.name for topic in topics] == ["t"]
        assert [
            (one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code)
            for one in topics[0].partitions
        ] == [(0, -1, -1, "", code), (3, -1, -1, "", code)]


async def test_a_new_group_is_answered_as_by_kafka(client):
    pairs = [
        (request_of(asked), response_of(recorded), asked["api_version"])
        for file in ("clients-python.jsonl", "clients-librdkafka.jsonl", "clients-java.jsonl")
        for asked, recorded in recorded_pairs(file)
        if asked["api_name"] == "OffsetFetch"
    ]
    fresh = [
        (asked, expected, version)
        for asked, expected, version in pairs
        if version >= 8
        and all(p.committed_offset == -1 for g in expected.groups for t in g.topics for p in t.partitions)
    ]
    assert fresh
    for asked, expected, version in fresh:
        assert await client.call(asked, version) == expected

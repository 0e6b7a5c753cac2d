"""The newer group protocol, which Kafka does not have in ZooKeeper mode: the rights are those of Kafka 4.0."""

from __future__ import annotations

import pytest
import pytest_asyncio

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from support.authorization import allow, authorized_broker, client_of, put_acls
from support.wire import create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ_GROUP = allow("User:alice", "Read", "Group", "g")
DESCRIBE_TOPIC = allow("User:alice", "Describe", "Topic", "t")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            await create_topic(admin, "t")
            await admin.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def alice(broker):
    async with client_of(broker, "User:alice") as client:
        yield client


def join():
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="one",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


async def test_a_member_needs_its_group_and_its_topics(broker, alice):
    put_acls(broker, [])
    assert (await alice.call(join(), 0)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    put_acls(broker, [READ_GROUP])
    assert (await alice.call(join(), 0)).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    put_acls(broker, [READ_GROUP, DESCRIBE_TOPIC])
    assert (await alice.call(join(), 0)).error_code == ErrorCode.NONE


async def test_a_group_is_described_only_with_all_of_its_topics(broker, alice):
    put_acls(broker, [READ_GROUP, DESCRIBE_TOPIC])
    await alice.call(join(), 0)
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    (group,) = (await alice.call(request, 0)).groups
    assert (group.error_code, len(group.members)) == (0, 1)
    assert group.authorized_operations == 1 << 3 | 1 << 8  # Read and Describe
    put_acls(broker, [READ_GROUP])
    (group,) = (await alice.call(request, 0)).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    put_acls(broker, [])
    (group,) = (await alice.call(request, 0)).groups
    assert (group.error_code, group.members) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])

"""Three broker processes on one ZooKeeper: who is there, who decides, who leads, and what survives."""

import pytest

from client.admin.admin import Admin
from client.admin.types import ConfigChange, ResourceType
from client.producer.producer import Producer
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from support.cluster_security import KINDS, MUTUAL_TLS, OAUTHBEARER, PLAIN, PLAINTEXT, SCRAM_OVER_TLS, with_security
from support.polling import until

SETTINGS = {"auto_leader_rebalance_enable": "false", "controlled_shutdown_retry_backoff_ms": "200"}


@pytest.fixture
async def cluster(start_cluster):
    async with start_cluster(**SETTINGS) as cluster:
        yield cluster


def led_by_one_of(cluster, topic, leaders, partition):
    async def is_led():
        return (await cluster.state(topic, partition)).get("leader") in leaders

    return is_led


def in_sync(cluster, topic, brokers, partition=0):
    async def is_in_sync():
        return set((await cluster.state(topic, partition)).get("isr", ())) == set(brokers)

    return is_in_sync


def known_leader(cluster, asked, topic, leader):
    """What one broker's metadata say."""

    async def is_known():
        async with Admin(**cluster.options(asked)) as admin:
            return (await admin.describe_topics([topic]))[topic].partitions[0].leader == leader

    return is_known


@with_security(PLAINTEXT)
async def test_a_broker_without_a_replica_describes_the_settings_of_a_topic(cluster):
    await cluster.create_topic("t", {0: [0]}, {"retention.ms": "7000"})
    await until(known_leader(cluster, 1, "t", 0), "broker 1 knows the topic")
    resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=["retention.ms"])
    async with cluster.wire(1) as client:
        answer = await client.call(DescribeConfigsRequest(resources=[resource]))
    assert [one.value for one in answer.results[0].configs] == ["7000"]


@with_security(PLAINTEXT, full=(MUTUAL_TLS, PLAIN))
async def test_a_killed_leader_is_replaced_and_rejoins(cluster):
    assert await cluster.live() == {0, 1, 2}
    controller = await cluster.controller()
    leader, other = sorted({0, 1, 2} - {controller})
    await cluster.create_topic("t", {0: [leader, other, controller]})
    await cluster.create_topic("solo", {0: [leader]})
    await cluster.kill(leader)
    await cluster.until_led_by(other, "t")
    await cluster.until_led_by(-1, "solo")
    assert set((await cluster.state("t"))["isr"]) == {other, controller}
    await until(known_leader(cluster, controller, "t", other), "metadata tell of it")
    await cluster.start(leader)
    await cluster.until_led_by(leader, "solo")
    await until(in_sync(cluster, "t", {0, 1, 2}), "it has caught up")
    assert (await cluster.state("t"))["leader"] == other


@with_security(PLAINTEXT, full=(OAUTHBEARER,))
async def test_a_broker_restarts_before_its_session_expires(cluster):
    """Its registration is another one: the controller takes it for restarted, and others lead meanwhile."""
    controller = await cluster.controller()
    leader, other = sorted({0, 1, 2} - {controller})
    await cluster.create_topic("t", {0: [leader, other]})
    before = (await cluster.state("t"))["leader_epoch"]
    await cluster.kill(leader)
    await cluster.start(leader)
    await cluster.until_led_by(other, "t")
    await until(in_sync(cluster, "t", {leader, other}), "it has caught up")
    assert (await cluster.state("t"))["leader_epoch"] > before


@with_security(PLAINTEXT)
async def test_a_follower_was_away_when_segment_bytes_became_smaller(cluster):
    """It fetches more at once than fits into one of its segments, and batches that are larger than one."""
    leader, follower = sorted({0, 1, 2} - {await cluster.controller()})
    await cluster.create_topic("t", {0: [leader, follower]})
    await cluster.stop(follower)
    async with Producer(**cluster.options(leader)) as producer:
        for number in range(40):
            await producer.send("t", b"%d" % number * 50)
        await producer.send("t", bytes(5000))
    smaller = [ConfigChange("segment.bytes", "1000")]
    async with Admin(**cluster.options(leader)) as admin:
        await admin.incremental_alter_configs(ResourceType.TOPIC, "t", smaller)
    await cluster.start(follower)
    await until(in_sync(cluster, "t", {leader, follower}), "it has caught up")


@with_security(PLAINTEXT, full=KINDS)
async def test_a_killed_controller_is_replaced(cluster):
    await cluster.create_topic("t", {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]})
    controller = await cluster.controller()
    epoch = await cluster.znode("/controller_epoch")
    await cluster.kill_and_expire(controller)

    async def is_followed():
        return await cluster.controller() not in (controller, -1)

    await until(is_followed, "there is another controller")
    assert await cluster.znode("/controller_epoch") == epoch + 1
    others = {0, 1, 2} - {controller}
    for partition in range(3):
        await until(in_sync(cluster, "t", others, partition), "the rest is in sync")
        await until(led_by_one_of(cluster, "t", others, partition), "one of them leads")
    await cluster.create_topic("u", {0: sorted(others)})
    await cluster.start(controller)
    for partition in range(3):
        await until(in_sync(cluster, "t", {0, 1, 2}, partition), "it has caught up")


@with_security(PLAINTEXT, MUTUAL_TLS, full=KINDS)
async def test_expired_sessions(cluster):
    """A follower's, a leader's and the controller's, one after the other: each registers again and is in sync again."""
    await cluster.create_topic("t", {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]})
    for broker_id in (0, 1, 2):
        before = await cluster.registry.exists(f"/brokers/ids/{broker_id}")
        await cluster.expire_session(broker_id)

        async def is_back(broker_id=broker_id, before=before):
            stat = await cluster.registry.exists(f"/brokers/ids/{broker_id}")
            return stat is not None and stat.czxid > before.czxid

        await until(is_back, "it is registered again")
        for partition in range(3):
            await until(in_sync(cluster, "t", {0, 1, 2}, partition), "all are in sync again")

    async def is_controlled():
        return await cluster.controller() in {0, 1, 2}

    await until(is_controlled, "there is a controller")
    await cluster.acquainted(0, 1, 2)
    await cluster.create_topic("u", {0: [0], 1: [1], 2: [2]})


@with_security(PLAINTEXT, SCRAM_OVER_TLS, full=KINDS)
async def test_stopping_brokers_hand_over_their_leaderships(cluster):
    """One after the other, as in a rolling restart: while one is away there is a leader, and no election by loss."""
    await cluster.create_topic("t", {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]})
    for broker_id in (0, 1, 2):
        await cluster.stop(broker_id)
        for partition in range(3):
            state = await cluster.state("t", partition)
            assert state["leader"] not in (broker_id, -1)
            assert broker_id not in state["isr"]
        assert "partitions are not handed over" not in cluster.brokers[broker_id].log_text()
        await cluster.start(broker_id)
        for partition in range(3):
            await until(in_sync(cluster, "t", {0, 1, 2}, partition), "all are in sync again")

"""The controller writes what Apache Kafka's wrote: the recorded scenarios 02-14, 23 and 31, znode by znode.

Brokers are those of `support.controllers`: they only listen. What leaders did in the recording (taking followers into
the ISR) is asked for here as a leader asks, by AlterPartition.
"""

from __future__ import annotations

import json

import pytest

from broker.controller.alter_partition import Proposal
from broker.controller.elections import ElectionType
from registry.znodes.admin import PreferredReplicaElectionZnode, ReassignPartitionsZnode
from registry.znodes.notifications import (
    IsrChangeNotificationZnode,
    LogDirEventNotificationsZnode,
    LogDirEventNotificationZnode,
)
from registry.znodes.topics import PartitionStateZnode
from support.controllers import Cluster
from support.polling import until
from support.znodes import recorded_tree, without_varying

LIVE = ("/brokers/topics/", "/admin/", "/controller_epoch")


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(tmp_path, auto_leader_rebalance_enable="false") as cluster:
        yield cluster


def compared(path):
    return path.startswith(LIVE) and "__consumer_offsets" not in path and "__transaction_state" not in path


def recorded(name):
    return {path: entry for path, entry in recorded_tree(name).items() if compared(path)}


def live(cluster):
    """What `recorded_tree` has of a dump, of the tree as it is."""
    tree = {}
    for path, node in cluster.store.tree.nodes.items():
        if compared(path):
            stat = node.stat()
            tree[path] = (bool(stat.ephemeral_owner), stat.version, stat.cversion, without_varying(node.data))
    return tree


async def same(cluster, name):
    expected = recorded(name)
    try:
        await until(lambda: live(cluster) == expected, name)
    except AssertionError:
        assert live(cluster) == expected


async def in_sync_again(cluster, broker_id, *topics):
    """The leaders of these topics take a broker into their ISRs."""
    controller = await cluster.settled()
    for key in sorted(controller.context.leaderships):
        leadership = controller.context.leaderships[key]
        state = leadership.state
        if key[0] in topics and broker_id not in state.isr and broker_id in controller.context.replicas(key):
            await joins(controller, key, [*state.isr, broker_id])


async def joins(controller, key, isr, **more):
    leadership = controller.context.leaderships[key]
    leader = leadership.state.leader
    epochs = {one: controller.context.brokers[one].epoch for one in isr}
    proposal = Proposal(leadership.state.leader_epoch, leadership.partition_epoch, epochs, **more)
    outcomes = await controller.alter_partitions(
        leader, controller.context.brokers[leader].epoch, lambda: {key: proposal}
    )
    assert outcomes[key].state.isr == isr


async def stop(cluster, broker_id):
    """As SIGTERM: the broker is relieved, then goes."""
    controller = await cluster.elected()
    assert await controller.relieve(broker_id, controller.context.brokers[broker_id].epoch) == []
    await cluster.leave(broker_id)


def is_live(cluster, broker_id):
    return any(broker_id in one.controller.context.brokers for one in cluster.members.values())


async def test_scenarios_02_to_14(cluster):
    for broker_id in (0, 1, 2):
        await cluster.join(broker_id, runs=broker_id == 0)
    controller = await cluster.elected()
    await until(lambda: len(controller.context.brokers) == 3, "all are there")
    await cluster.create("t3", [2, 0, 1], [1, 2, 0], [0, 1, 2])
    await cluster.create("solo", [0], [1], [2])
    await same(cluster, "02-three-brokers-rf3.json")
    await cluster.grow("t3", [2, 1, 0], [0, 2, 1])
    await same(cluster, "03-partition-count-increase.json")
    await cluster.create("gap", [1, 2, 0], [0, 1, 2])
    await until(lambda: cluster.leader("gap", 1), "it is led")
    await stop(cluster, 2)
    await same(cluster, "04-broker-2-cleanly-stopped.json")
    await cluster.delete("gap")
    await same(cluster, "05-topic-deletion-pending.json")
    await cluster.join(2, runs=False)
    await until(lambda: is_live(cluster, 2), "it is back")
    await in_sync_again(cluster, 2, "t3")
    await same(cluster, "06-broker-2-back.json")
    await controller.decide("ElectLeaders", lambda: controller.elections.elect(None, ElectionType.PREFERRED))
    await same(cluster, "07-after-preferred-election.json")
    await same(cluster, "08-leader-killed-session-alive.json")
    await cluster.admin.create(  # as the recording's tool; there is nothing to be done
        PreferredReplicaElectionZnode.path(), PreferredReplicaElectionZnode(partitions=[("t3", 0)]).encode()
    )
    await same(cluster, "08-leader-killed-session-alive.json")
    await cluster.leave(2)
    await same(cluster, "09-leader-killed-session-expired.json")
    await cluster.join(2, runs=False)
    await until(lambda: is_live(cluster, 2), "it is back")
    await in_sync_again(cluster, 2, "t3")
    cluster.stand(1)
    await stop(cluster, 0)
    assert (await cluster.elected()).broker_id == 1
    await same(cluster, "10-controller-cleanly-stopped.json")

    await cluster.join(0, runs=False)
    await until(lambda: is_live(cluster, 0), "it is back")
    await in_sync_again(cluster, 0, "t3")
    await cluster.create("move", [0, 1])
    await until(lambda: cluster.leader("move"), "it is led")
    controller = await cluster.elected()
    await controller.decide("move", lambda: controller.reassignments.submit(("move", 0), [1, 2]))
    await same(cluster, "11-reassignment-in-progress.json")
    await joins(await cluster.settled(), ("move", 0), [0, 1, 2])
    await same(cluster, "12-reassignment-done.json")

    cluster.unclean_topics.add("unclean")
    await cluster.create("unclean", [1, 2])
    await until(lambda: cluster.leader("unclean"), "it is led")
    await stop(cluster, 2)
    await until(lambda: not is_live(cluster, 2), "it is gone")
    await until(lambda: cluster.leader("solo", 2)[0] == -1, "that is written")
    cluster.stand(0)
    await cluster.leave(1)
    await same(cluster, "13-no-leader-last-isr-kept.json")
    await cluster.join(2, runs=False)
    await until(lambda: is_live(cluster, 2), "it is back")
    await in_sync_again(cluster, 2, "t3")
    await same(cluster, "14-unclean-election.json")
    assert json.loads(cluster.node(PartitionStateZnode.path("unclean", 0)))["leader_recovery_state"] == 1


async def test_scenario_23(cluster):
    """A log directory of the only broker fails: who has lost a replica has no leader, and keeps the ISR."""
    await cluster.join(1)
    await cluster.elected()
    await cluster.create("cfg", [1], [1])
    await cluster.create("dirs", [1], [1], [1], [1], topic_id=bytes(range(2, 18)))
    await until(lambda: cluster.leader("dirs", 3) and cluster.leader("cfg", 1), "they are led")
    cluster.lost[1] = {("cfg", 1), ("dirs", 0), ("dirs", 2)}
    data = LogDirEventNotificationZnode(broker=1).encode()
    await cluster.admin.create(LogDirEventNotificationZnode.path(), data, sequence=True)
    expected = {path: entry for path, entry in recorded("23-log-dir-failed.json").items() if "/topics/" in path}
    await until(lambda: not cluster.store.tree.children(LogDirEventNotificationsZnode.path()), "it is taken down")
    await until(lambda: cluster.leader("dirs", 2)[0] == -1, "nobody leads it")
    assert {path: entry for path, entry in live(cluster).items() if "/topics/" in path} == expected


async def test_scenarios_30_and_31(tmp_path):
    """An older inter.broker.protocol.version: no topic ids, no features, ISR changes by the leaders themselves."""
    overrides = {"inter_broker_protocol_version": "2.6", "auto_leader_rebalance_enable": "false"}
    async with Cluster(tmp_path, **overrides) as cluster:
        await cluster.join(0)
        controller = await cluster.elected()
        await cluster.join(1, runs=False)
        await until(lambda: len(controller.context.brokers) == 2, "both are there")
        await cluster.create("t", [0, 1], [1, 0], topic_id=None)
        await same(cluster, "30-two-brokers-ibp-2.6.json")
        assert cluster.node("/feature") == b'{"features":{},"version":1,"status":0}'
        await cluster.leave(1)
        await until(lambda: cluster.leader("t", 0) == (0, 1), "it is missed")
        await cluster.join(1, runs=False)
        await until(lambda: len(controller.context.brokers) == 2, "it is back")
        for partition in (0, 1):  # as a leader of that time does it
            path = PartitionStateZnode.path("t", partition)
            await cluster.admin.set(path, cluster.state("t", partition).replace(isr=[0, 1]).encode(), 1)
        await cluster.admin.create(
            ReassignPartitionsZnode.path(), ReassignPartitionsZnode(partitions={("t", 0): [1, 0]}).encode()
        )
        await until(lambda: cluster.node(ReassignPartitionsZnode.path()) is None, "it has moved")
        cluster.said.clear()
        notification = IsrChangeNotificationZnode(partitions=[("t", 1), ("t", 0)]).encode()
        await cluster.admin.create(IsrChangeNotificationZnode.path(), notification, sequence=True)
        await until(lambda: not cluster.store.tree.children("/isr_change_notification"), "it is taken down")
        await same(cluster, "31-two-brokers-ibp-2.6-after.json")
        await until(lambda: cluster.knows(1, "t", 1) == 0, "everybody hears of it")
        assert controller.context.leaderships[("t", 1)].state.isr == [0, 1]

"""Three broker processes leave the znodes that three of Apache Kafka left: scenarios 02 to 10 and 12, live.

Everything counts: path, ephemeral, bytes but for ids and times, versions. (The scenarios of which the moment matters,
and those of one controller after another, are in tests/broker/controller/test_recorded_scenarios.py.)
"""

import pytest

from client.admin import Admin
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest
from registry.admin_znodes import DeleteTopicZnode
from support.cluster import broker_cluster, eventually
from support.wire import wire_client
from support.znodes import live_tree, recorded_tree

COMPARED = ("/brokers/topics/", "/admin/", "/controller_epoch")
TOPICS = ("/brokers/topics/__", "/brokers/topics/move")


def compared(tree):
    return {path: one for path, one in tree.items() if path.startswith(COMPARED) and not path.startswith(TOPICS)}


async def same(cluster, name):
    expected, found = compared(recorded_tree(name)), {}

    async def is_same():
        nonlocal found
        found = compared(await live_tree(cluster.registry))
        return found == expected

    try:
        await eventually(is_same, name)
    except AssertionError:
        assert found == expected


async def call(cluster, request):
    async with wire_client(cluster.bootstrap(await cluster.controller())) as client:
        return await client.call(request)


@pytest.mark.timeout(240)
async def test_scenarios_02_to_12(tmp_path):
    async with broker_cluster(tmp_path, 1, auto_leader_rebalance_enable="false") as cluster:
        await cluster.start(1, 2)
        await cluster.create_topic("t3", {0: [2, 0, 1], 1: [1, 2, 0], 2: [0, 1, 2]})
        await cluster.create_topic("solo", {0: [0], 1: [1], 2: [2]})
        await same(cluster, "02-three-brokers-rf3.json")
        async with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
            await admin.create_partitions("t3", 5, assignment=[[2, 1, 0], [0, 2, 1]])
        await same(cluster, "03-partition-count-increase.json")
        await cluster.create_topic("gap", {0: [1, 2, 0], 1: [0, 1, 2]})
        await cluster.stop(2)
        await same(cluster, "04-broker-2-cleanly-stopped.json")
        await cluster.registry.create(DeleteTopicZnode.path("gap"))
        await same(cluster, "05-topic-deletion-pending.json")
        await cluster.start(2)
        await same(cluster, "06-broker-2-back.json")
        assert (await call(cluster, ElectLeadersRequest(topic_partitions=None))).error_code == 0
        await same(cluster, "07-after-preferred-election.json")
        await cluster.kill(2)
        assert 2 in await cluster.live()
        await same(cluster, "08-leader-killed-session-alive.json")
        await same(cluster, "09-leader-killed-session-expired.json")
        await cluster.start(2)

        async def is_in_sync():
            return all([len((await cluster.state("t3", partition))["isr"]) == 3 for partition in range(5)])

        await eventually(is_in_sync, "broker 2 has caught up")
        await cluster.stop(0)
        await same(cluster, "10-controller-cleanly-stopped.json")
        await cluster.start(0)
        await eventually(is_in_sync, "broker 0 has caught up")
        await cluster.create_topic("move", {0: [0, 1]})
        moves = [ReassignableTopic(name="move", partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2])])]
        answer = await call(cluster, AlterPartitionReassignmentsRequest(topics=moves))
        assert answer.responses[0].partitions[0].error_code == 0
        await same(cluster, "12-reassignment-done.json")

        async def has_moved():
            tree = await live_tree(cluster.registry)
            moved = recorded_tree("12-reassignment-done.json")
            paths = ["/brokers/topics/move", "/brokers/topics/move/partitions/0/state"]
            is_gone = not (tmp_path / "broker-0" / "move-0").exists()
            return is_gone and all(tree[path] == moved[path] for path in paths)

        await eventually(has_moved, "as recorded, too, and gone from broker 0")

"""Broker processes on a real ZooKeeper leave the znodes that Apache Kafka left: scenarios 02 to 14, 20, 23, 30 and 31.

The whole tree counts: path, ephemeral, bytes but for ids and times, versions. What was random in the recording (which
broker becomes controller, where replicas and directories are) is brought about here as it was there. Scenario 01 is in
tests/broker/cluster/test_zookeeper_broker.py; what controllers decide step by step, in tests/broker/controller/.
"""

from __future__ import annotations

import re

import pytest

from client.admin.admin import Admin
from client.topic_partition import TopicPartition
from ottla.reassignment.replication_throttle import clear_throttle, set_throttle
from registry.znodes.admin import DeleteTopicZnode, PreferredReplicaElectionZnode, ReassignPartitionsZnode
from support.cluster import broker_cluster
from support.polling import until
from support.wire import append, batch, wire_client
from support.znodes import live_tree, recorded_tree

MOVE = TopicPartition("move", 0)
LIVES_LONG_MS = 18_000
"""Longer than a broker stands still here; the sessions of those that are killed are ended by the test."""
ACLS = "/kafka-acl"


def everything(path):
    return not path.startswith(ACLS)  # the recorded broker had an authorizer


def but_for_settings(path):
    """Scenarios 21 and 22, before 23, were about settings, quotas and users."""
    return everything(path) and (not path.startswith("/config") or path.startswith("/config/topics/dirs"))


def neighbours_swapped(path):
    """With 0 for 1 and 2 for 3 among the partitions of `dirs`: of two directories with as many logs Kafka took any."""
    return re.sub(r"(?<=^/brokers/topics/dirs/partitions/)\d", lambda found: str(int(found[0]) ^ 1), path)


async def same(cluster, name, compared=everything, ours=str):
    """Wait until the tree is the recorded one; `compared` says of a path whether it counts, `ours` what it is here."""
    expected = {ours(path): one for path, one in recorded_tree(name).items() if compared(path)}
    found = {}

    async def is_same():
        nonlocal found
        found = {path: one for path, one in (await live_tree(cluster.registry)).items() if compared(path)}
        return found == expected

    try:
        await until(is_same, name)
    except AssertionError:
        assert found == expected


async def in_sync(cluster, topic, partitions, brokers):
    async def is_in_sync():
        return all([set((await cluster.state(topic, one)).get("isr", ())) == set(brokers) for one in range(partitions)])

    await until(is_in_sync, f"{topic} is in sync on {brokers}")


async def produced(cluster, leader, topic, size, count, partition=0):
    async with wire_client(cluster.bootstrap(leader)) as client:

        async def is_taken():  # the leader may not have heard yet that it is one
            return (await append(client, topic, batch(bytes(size)), partition)).error_code == 0

        for _ in range(count):
            await until(is_taken, f"broker {leader} leads {topic}")


def bytes_of(tmp_path, broker_id, partition):
    folder = tmp_path / f"broker-{broker_id}" / f"{partition.topic}-{partition.partition}"
    return sum(path.stat().st_size for path in folder.glob("*.log"))


@pytest.mark.timeout(400)
async def test_scenarios_02_to_14(tmp_path):
    settings = {
        "auto_leader_rebalance_enable": "false",
        "unclean_leader_election_enable": "false",
        "zookeeper_session_timeout_ms": str(LIVES_LONG_MS),
    }
    async with broker_cluster(tmp_path, 1, **settings) as cluster:
        await cluster.start(1, 2)
        await topics_grow_and_go(cluster)
        await leaders_change(cluster)
        await a_partition_moves(cluster, tmp_path)
        await an_unclean_election(cluster)


async def topics_grow_and_go(cluster):
    """Scenarios 02 to 06."""
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


async def leaders_change(cluster):
    """Scenarios 07 to 10."""
    async with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
        await admin.elect_leaders()
    await same(cluster, "07-after-preferred-election.json")
    election = PreferredReplicaElectionZnode(partitions=[("t3", 0)])
    await cluster.registry.create(PreferredReplicaElectionZnode.path(), election.encode())  # nothing to be done
    await cluster.kill(2)
    await same(cluster, "08-leader-killed-session-alive.json")
    await cluster.expire_session(2)
    await same(cluster, "09-leader-killed-session-expired.json")
    await cluster.start(2)
    await in_sync(cluster, "t3", 5, [0, 1, 2])
    cluster.pause(2)  # so that broker 1 is the one that sees first that nobody is the controller
    await cluster.stop(0)

    async def has_taken_over():
        return await cluster.controller() == 1

    await until(has_taken_over, "broker 1 is the controller")
    cluster.resume(2)
    await same(cluster, "10-controller-cleanly-stopped.json")


async def a_partition_moves(cluster, tmp_path):
    """Scenarios 11 and 12: three times what a follower fetches at once, at 1,000 bytes a second."""
    await cluster.start(0)
    await in_sync(cluster, "t3", 5, [0, 1, 2])
    await cluster.create_topic("move", {0: [0, 1]})
    await produced(cluster, 0, "move", 500_000, 6)
    async with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
        await set_throttle(admin, {MOVE: [0, 1]}, {MOVE: [1, 2]}, 1000)
        assert await admin.alter_partition_reassignments({MOVE: [1, 2]}) == {MOVE: None}

        async def has_begun():
            return bytes_of(tmp_path, 2, MOVE) > 0

        await until(has_begun, "broker 2 has got something")
        await same(cluster, "11-reassignment-in-progress.json")
        assert list(await admin.list_partition_reassignments()) == [MOVE]
        assert bytes_of(tmp_path, 2, MOVE) < bytes_of(tmp_path, 0, MOVE)
        await clear_throttle(admin, ["move"], [0, 1, 2])
    await same(cluster, "12-reassignment-done.json")

    async def has_gone():
        return not (tmp_path / "broker-0" / "move-0").exists()

    await until(has_gone, "broker 0 has deleted it")


async def an_unclean_election(cluster):
    """Scenarios 13 and 14."""
    await cluster.create_topic("unclean", {0: [1, 2]}, {"unclean.leader.election.enable": "true"})
    await produced(cluster, 1, "unclean", 100, 10)
    await cluster.stop(2)

    async def is_missed():
        return (await cluster.state("solo", 2))["leader"] == -1

    await until(is_missed, "nobody leads what only broker 2 has")
    await produced(cluster, 1, "unclean", 100, 10)
    await cluster.kill_and_expire(1)
    await same(cluster, "13-no-leader-last-isr-kept.json")
    await cluster.start(2)
    await same(cluster, "14-unclean-election.json")


@pytest.mark.timeout(120)
async def test_scenarios_20_and_23(tmp_path):
    """Two listeners, a rack, and two log directories of which one fails."""
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    settings = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://localhost:0",
        "listener_security_protocol_map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter_broker_listener_name": "INTERNAL",
        "broker_rack": "rack-a",
        "log_dirs": f"{kept},{lost}",
        "log_segment_bytes": "20000",
    }
    async with broker_cluster(tmp_path, 0) as cluster:
        await cluster.start(1, **settings)
        await same(cluster, "20-two-listeners-rack-authorizer.json")
        await cluster.create_topic("cfg", {0: [1], 1: [1]})
        await cluster.create_topic("dirs", {0: [1], 1: [1], 2: [1], 3: [1]})
        assert {path.name for path in lost.glob("*-?")} == {"cfg-1", "dirs-1", "dirs-3"}
        lost.rename(tmp_path / "aside")
        lost.write_text("a file")
        async with wire_client(cluster.bootstrap(1)) as client:
            while (await append(client, "dirs", batch(bytes(5000)), 1)).error_code == 0:
                pass  # until a roll needs the directory
        await same(cluster, "23-log-dir-failed.json", but_for_settings, neighbours_swapped)


@pytest.mark.timeout(180)
async def test_scenarios_30_and_31(tmp_path):
    """An older inter.broker.protocol.version: no topic ids, no features, ISRs written by the leaders themselves."""
    settings = {"inter_broker_protocol_version": "2.6", "auto_leader_rebalance_enable": "false"}
    async with broker_cluster(tmp_path, 1, **settings) as cluster:
        await cluster.start(1)
        await cluster.create_topic("t", {0: [0, 1], 1: [1, 0]})
        await same(cluster, "30-two-brokers-ibp-2.6.json")
        await cluster.kill_and_expire(1)
        await in_sync(cluster, "t", 2, [0])
        await cluster.start(1)
        await in_sync(cluster, "t", 2, [0, 1])
        moves = ReassignPartitionsZnode(partitions={("t", 0): [1, 0]})
        await cluster.registry.create(ReassignPartitionsZnode.path(), moves.encode())
        await same(cluster, "31-two-brokers-ibp-2.6-after.json")
        async with Admin(bootstrap_servers=cluster.bootstrap(1)) as admin:

            async def is_known():  # of partition 1 only the notification has told the controller
                return set((await admin.describe_topics(["t"]))["t"].partitions[1].isr) == {0, 1}

            await until(is_known, "the ISR is in the metadata")

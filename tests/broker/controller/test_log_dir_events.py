"""Log directories that fail: the controller asks, marks replicas offline, has others lead, and deletes the znode."""

import asyncio

import pytest

from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from registry.znodes.notifications import LogDirEventNotificationsZnode, LogDirEventNotificationZnode
from support.controllers import Cluster
from support.polling import until


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(tmp_path) as cluster:
        yield cluster


async def notify(cluster, broker_id):
    data = LogDirEventNotificationZnode(broker=broker_id).encode()
    assert data == b'{"version":1,"broker":%d,"event":1}' % broker_id  # as Kafka wrote it in ops-configs-acls.jsonl
    path = LogDirEventNotificationZnode.path()
    return await cluster.admin.create(path, data, sequence=True, make_parents=True)


async def three_brokers(cluster):
    for broker_id in (1, 2, 3):
        await cluster.join(broker_id)
    return await cluster.elected()


def notifications(cluster):
    return [path for path in cluster.store.tree.nodes if path.startswith("/log_dir_event_notification/")]


async def test_a_partition_without_another_replica_loses_its_leader(cluster):
    """As recorded in 23-log-dir-failed.json: leader -1, the next epoch, the ISR kept."""
    await three_brokers(cluster)
    await cluster.create("t", [1], [1])
    await until(lambda: cluster.leads(1, "t", 1), "it is led")
    cluster.lost[1] = {("t", 0)}
    path = await notify(cluster, 1)
    assert path == "/log_dir_event_notification/log_dir_event_0000000000"
    await until(lambda: cluster.leader("t", 0) == (-1, 1), "the leader is gone")
    assert cluster.state("t", 0).isr == [1]
    assert cluster.leader("t", 1) == (1, 0)
    await until(lambda: not notifications(cluster), "the notification is deleted")
    for broker_id in (1, 2, 3):
        await until(lambda: cluster.offline(broker_id, "t", 0) == [1], "it is offline")  # noqa: B023
        assert cluster.knows(broker_id, "t", 0) == -1
        assert cluster.offline(broker_id, "t", 1) == []


async def test_another_in_sync_replica_becomes_the_leader(cluster):
    await three_brokers(cluster)
    await cluster.create("t", [1, 2, 3], [2, 1, 3])
    await until(lambda: cluster.leads(1, "t", 0) and cluster.leads(3, "t", 1), "they are led")
    cluster.lost[1] = {("t", 0), ("t", 1)}
    await notify(cluster, 1)
    await until(lambda: cluster.leader("t", 0) == (2, 1), "the next one leads")
    assert cluster.state("t", 0).isr == [2, 3]
    await until(lambda: cluster.leads(3, "t", 0) == (2, 1, False), "the others are told")
    assert cluster.leader("t", 1) == (2, 1)  # a follower is lost: the leader stays, and hears of it
    assert cluster.state("t", 1).isr == [2, 3]
    await until(lambda: cluster.offline(2, "t", 1) == [1], "and yet everybody knows that it is offline")


async def test_only_the_broker_that_failed_is_asked_about_all_its_replicas(cluster):
    await three_brokers(cluster)
    await cluster.create("t", [1], [2], [1, 2])
    await until(lambda: cluster.leads(2, "t", 2), "they are led")
    asked = {broker_id: len(cluster.told(broker_id, LeaderAndIsrRequest)) for broker_id in (1, 2, 3)}
    await notify(cluster, 1)
    await notify(cluster, 9)  # nobody
    await until(lambda: not notifications(cluster), "the notifications are deleted")
    more = {
        broker_id: [
            (state.partition_index, state.is_new)
            for request in cluster.told(broker_id, LeaderAndIsrRequest)[before:]
            for topic in request.topic_states
            for state in topic.partition_states
        ]
        for broker_id, before in asked.items()
    }
    assert more == {1: [(0, False), (2, False)], 2: [], 3: []}


async def test_a_broker_that_starts_with_a_failed_directory_reports_it(cluster):
    await cluster.join(1)
    await cluster.elected()
    cluster.lost[2] = {("t", 0)}
    await cluster.create("t", [2, 1], [2])
    await until(lambda: cluster.leader("t", 0) == (1, 0), "broker 1 leads what it can")
    await cluster.join(2, runs=False)
    await until(lambda: cluster.leader("t", 1) == (2, 0), "broker 2 has come")
    await until(lambda: cluster.offline(1, "t", 0) == [2], "its failed replica is known")
    assert cluster.leader("t", 0) == (1, 0)


async def test_a_directory_works_again_after_a_restart(cluster):
    await three_brokers(cluster)
    await cluster.create("t", [3])
    await until(lambda: cluster.leads(3, "t"), "it is led")
    cluster.lost[3] = {("t", 0)}
    await notify(cluster, 3)
    await until(lambda: cluster.leader("t") == (-1, 1), "the leader is gone")
    await cluster.leave(3)
    cluster.lost.clear()
    await cluster.join(3, runs=False)
    await until(lambda: cluster.leader("t") == (3, 2), "it leads again")
    await until(lambda: cluster.offline(1, "t") == [], "it is online")


async def test_a_directory_still_fails_after_a_restart(cluster):
    await three_brokers(cluster)
    await cluster.create("t", [3])
    await until(lambda: cluster.leads(3, "t"), "it is led")
    cluster.lost[3] = {("t", 0)}
    await notify(cluster, 3)
    await until(lambda: cluster.leader("t") == (-1, 1), "the leader is gone")
    await cluster.leave(3)
    await cluster.join(3, runs=False)
    await until(lambda: cluster.leader("t") == (-1, 3), "elected, asked, and given up again")
    await until(lambda: cluster.offline(1, "t") == [3], "it is offline")


async def test_a_new_controller_deletes_old_notifications(cluster):
    await notify(cluster, 1)
    await cluster.admin.create(f"{LogDirEventNotificationsZnode.path()}/log_dir_event_x", b"{", make_parents=True)
    cluster.lost[1] = {("t", 0)}
    await cluster.create("t", [1, 2])
    await cluster.join(2, runs=False)
    await cluster.join(1)
    await cluster.elected()
    await until(lambda: not notifications(cluster), "the notifications are deleted")
    await until(lambda: cluster.leader("t") == (2, 1), "broker 1 has said what it lost")


async def test_a_topic_in_a_failed_directory_is_deleted_after_the_broker_restarts(cluster):
    await three_brokers(cluster)
    await cluster.create("t", [3])
    await until(lambda: cluster.leads(3, "t"), "it is led")
    cluster.obeys = False
    await cluster.delete("t")
    await until(lambda: cluster.unanswered, "broker 3 is asked")
    cluster.answer(56)
    await asyncio.sleep(0)
    assert len(cluster.stopped(3)) == 1
    assert "t" in await cluster.admin.children("/admin/delete_topics")
    await cluster.leave(3)
    cluster.obeys = True
    await cluster.join(3, runs=False)
    await until(lambda: not cluster.traces("t"), "it is deleted")

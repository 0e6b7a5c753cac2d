"""The controller on a real registry: elections, fencing, topics written by hand, and brokers that come and go."""

import asyncio

import pytest

from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from registry.errors import BadVersionError
from registry.interface import Create, Delete, Set
from registry.znodes.brokers import BrokerZnode
from registry.znodes.controller import ControllerEpochZnode, ControllerZnode, FeatureZnode
from registry.znodes.topics import PartitionStateZnode, TopicZnode
from support.controllers import Cluster
from support.polling import until


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(tmp_path) as cluster:
        yield cluster


def epoch(cluster):
    path = ControllerEpochZnode.path()
    data = cluster.node(path)
    return ControllerEpochZnode.decode(data, path).epoch


def holder(cluster):
    data = cluster.node(ControllerZnode.path())
    return None if data is None else ControllerZnode.decode(data, ControllerZnode.path()).broker


# -- election --------------------------------------------------------------------------------------------------------


async def test_one_of_several_brokers_is_elected(cluster):
    for broker_id in (1, 2, 3):
        await cluster.join(broker_id)
    controller = await cluster.elected()
    assert (epoch(cluster), holder(cluster)) == (1, controller.broker_id)
    assert controller.context.epoch == 1
    assert FeatureZnode.decode(cluster.node("/feature"), "/feature") == FeatureZnode()
    await until(lambda: cluster.live(1) == cluster.live(2) == cluster.live(3) == [1, 2, 3], "all know of all")


async def test_the_next_broker_becomes_the_controller(cluster):
    await cluster.join(1)
    await cluster.elected()
    for broker_id in (2, 3):
        await cluster.join(broker_id)
    for term in (2, 3):
        await cluster.leave(cluster.active[0])
        await cluster.elected()
        assert epoch(cluster) == term


async def test_an_expired_session_ends_the_term(cluster):
    first = await cluster.join(1)
    await cluster.elected()
    await cluster.join(2)
    await cluster.create("t", [2])
    await until(lambda: cluster.leader("t") == (2, 0), "it leads")
    await first.registry.expire()
    await until(lambda: cluster.active == [2], "the other takes over")
    assert first.controller.context.topics == {}
    assert (epoch(cluster), holder(cluster)) == (2, 2)


async def test_a_disconnected_controller_is_replaced_and_resigns_when_it_reconnects(cluster):
    first = await cluster.join(1)
    await cluster.elected()
    await cluster.join(2)
    first.registry.disconnect()
    await cluster.store.end_session(first.registry.session_id)
    await until(lambda: cluster.active == [1, 2], "the other takes over")
    first.registry.reconnect()
    await until(lambda: cluster.active == [2], "the first has learnt it")


async def test_a_replaced_controller_cannot_write(cluster, caplog):
    caplog.set_level("INFO")
    member = await cluster.join(1)
    controller = await cluster.elected()
    await cluster.admin.multi(  # as another controller does it; ours is told nothing of /controller
        [
            Delete(ControllerZnode.path()),
            Create(ControllerZnode.path(), ControllerZnode(broker=9, timestamp_ms=0).encode()),
            Set(ControllerEpochZnode.path(), b"2"),
            Create(TopicZnode.path("t"), TopicZnode(partitions={0: [1]}, topic_id=None, version=1).encode()),
        ]
    )
    await until(lambda: not controller.is_active, "it has resigned")
    assert cluster.leader("t") is None
    assert (await cluster.topic("t")).topic_id is None
    await cluster.admin.delete(ControllerZnode.path())
    await until(lambda: cluster.leader("t") == (1, 0), "elected again, it acts")
    assert cluster.state("t").controller_epoch == epoch(cluster) == 3
    assert not member.running.done()


async def test_the_first_write_detects_a_stale_controller_epoch(cluster, caplog):
    caplog.set_level("INFO")
    await cluster.join(1)
    controller = await cluster.elected()
    controller.context.epoch_version -= 1
    await cluster.create("t", [1])
    await until(lambda: cluster.leads(1, "t") == (1, 0, True), "it has found its feet")
    assert "another controller has taken over" in caplog.text


@pytest.mark.parametrize("losses", [1, 2, 3])
async def test_an_election_is_won_although_its_answer_is_lost(cluster, losses):
    """The first transaction is the election, the next are those of taking office."""
    await cluster.create("t", [1], topic_id=None, version=1)
    member = await cluster.join(1, runs=False)
    member.registry.losses = losses
    member.running = asyncio.create_task(member.controller.run())
    await cluster.elected()
    assert (epoch(cluster), holder(cluster)) == (1, 1)
    assert cluster.leader("t") == (1, 0)
    assert cluster.leads(1, "t")[:2] == (1, 0)
    assert cluster.knows(1, "t") == 1


async def test_no_controller_is_elected_while_the_epoch_is_unreadable(cluster, caplog):
    await cluster.admin.create(ControllerEpochZnode.path(), b"many")
    await cluster.join(1)
    await until(lambda: "/controller_epoch" in caplog.text, "it is reported")
    assert cluster.active == []
    await cluster.admin.set(ControllerEpochZnode.path(), b"41")
    await cluster.elected()
    assert epoch(cluster) == 42


async def test_an_unreadable_controller_znode_counts_as_a_controller(cluster, caplog):
    await cluster.admin.create(ControllerZnode.path(), b"{")
    await cluster.join(1)
    await until(lambda: "/controller:" in caplog.text, "it is reported")
    assert cluster.active == []
    await cluster.admin.delete(ControllerZnode.path())
    await cluster.elected()


# -- topics ----------------------------------------------------------------------------------------------------------


async def test_a_topic_written_by_hand_without_an_id_gets_one(cluster):
    for broker_id in (1, 2):
        await cluster.join(broker_id)
    await cluster.elected()
    await cluster.create("old", [2, 1], [1, 2], topic_id=None, version=1)
    await until(lambda: cluster.leads(1, "old", 1) and cluster.leads(2, "old", 1), "both are told")
    znode = await cluster.topic("old")
    assert (znode.version, znode.partitions) == (3, {0: [2, 1], 1: [1, 2]})
    assert len(znode.topic_id) == 16
    assert any(znode.topic_id)
    assert [cluster.leader("old", 0), cluster.leader("old", 1)] == [(2, 0), (1, 0)]
    assert cluster.leads(1, "old", 0) == cluster.leads(2, "old", 0) == (2, 0, True)
    assert cluster.knows(1, "old", 0) == 2


async def test_leader_and_isr_is_sent_before_update_metadata(cluster):
    await cluster.join(1)
    await cluster.elected()
    cluster.said.clear()
    await cluster.create("t", [1])
    await until(lambda: cluster.knows(1, "t"), "it is told")
    kinds = [type(request).__name__ for _, request in cluster.said]
    assert kinds == ["LeaderAndIsrRequest", "UpdateMetadataRequest"]


async def test_partitions_added_by_hand_get_leaders(cluster):
    await cluster.join(1)
    await cluster.elected()
    await cluster.create("t", [1])
    await until(lambda: cluster.leader("t"), "it leads")
    cluster.said.clear()
    await cluster.grow("t", [1], [1])
    await until(lambda: cluster.leads(1, "t", 2), "it is told")
    assert cluster.leads(1, "t", 0) is None  # nothing new about that one
    assert cluster.leads(1, "t", 1) == (1, 0, True)


async def test_partitions_removed_by_hand_do_no_harm(cluster):
    for broker_id in (1, 2):
        await cluster.join(broker_id)
    await cluster.elected()
    await cluster.create("t", [1], [2])
    await until(lambda: cluster.leader("t", 1), "it leads")
    await cluster.admin.set(TopicZnode.path("t"), (await cluster.topic("t")).replace(partitions={0: [1]}).encode())
    await cluster.leave(2)
    await cluster.create("u", [1])
    await until(lambda: cluster.leads(1, "u"), "the rest goes on")


async def test_the_next_controller_elects_leaders_for_topics_created_without_a_controller(cluster):
    await cluster.create("t", [1], [7])
    await cluster.join(1)
    controller = await cluster.elected()
    assert cluster.leader("t", 0) == (1, 0)
    assert cluster.leader("t", 1) is None  # its only replica is nowhere
    assert controller.is_active
    await cluster.join(7, runs=False)
    await until(lambda: cluster.leads(7, "t", 1) == (7, 0, True), "now it is here")


@pytest.mark.parametrize("losses", [1, 2])
async def test_a_topic_is_announced_although_the_answer_to_its_transaction_is_lost(cluster, losses):
    member = await cluster.join(1)
    await cluster.elected()
    member.registry.losses = losses
    await cluster.create("t", [1], topic_id=None, version=1)
    await until(lambda: cluster.knows(1, "t") == 1, "it is told")
    assert cluster.leader("t") == (1, 0)
    assert cluster.leads(1, "t") == (1, 0, True)


async def test_many_partitions_take_several_transactions(cluster):
    await cluster.join(1)
    await cluster.elected()
    await cluster.create("t", *[[1]] * 450)
    await until(lambda: cluster.knows(1, "t", 449) == 1, "all are told")
    assert all(cluster.leader("t", partition) == (1, 0) for partition in range(450))


async def test_an_unreadable_znode_is_reported_by_path_and_kept(cluster, caplog):
    await cluster.admin.create(TopicZnode.path("bad"), b"{}")
    await cluster.admin.create("/brokers/ids/x", b"{}")
    await cluster.admin.create("/brokers/ids/8", b"nonsense")
    await cluster.create("half", [1], [1])
    for path, data in (("/partitions", None), ("/partitions/0", None), ("/partitions/0/state", b"[]")):
        await cluster.admin.create(TopicZnode.path("half") + path, data)
    await cluster.join(1)
    await cluster.elected()
    await cluster.create("good", [1])
    await until(lambda: cluster.leads(1, "good"), "the rest goes on")
    assert cluster.leader("half", 1) == (1, 0)
    for path in (TopicZnode.path("bad"), "/brokers/ids/x", "/brokers/ids/8", PartitionStateZnode.path("half", 0)):
        assert path in caplog.text
    assert cluster.node(PartitionStateZnode.path("half", 0)) == b"[]"
    assert cluster.live(1) == [1]
    await cluster.admin.set(TopicZnode.path("bad"), TopicZnode(partitions={0: [1]}, topic_id=bytes(16)).encode())
    await until(lambda: cluster.leads(1, "bad") == (1, 0, True), "what is repaired is taken over")
    repaired = PartitionStateZnode(leader=1, leader_epoch=5, isr=[1], controller_epoch=1)
    await cluster.admin.set(PartitionStateZnode.path("half", 0), repaired.encode())
    await cluster.create("another", [1])
    await until(lambda: cluster.leads(1, "half", 0) == (1, 5, True), "this too, when the controller looks again")


async def test_an_unreadable_topic_may_be_replaced(cluster, caplog):
    await cluster.admin.create(TopicZnode.path("bad"), b"{}")
    await cluster.join(1)
    controller = await cluster.elected()
    assert TopicZnode.path("bad") in caplog.text
    await cluster.admin.delete(TopicZnode.path("bad"))
    await until(lambda: not controller._topics.is_watched("bad"), "it is gone")
    await cluster.create("bad", [1])
    await until(lambda: cluster.leads(1, "bad") == (1, 0, True), "it is good now")


# -- brokers ---------------------------------------------------------------------------------------------------------


async def test_a_new_broker_is_sent_the_full_state(cluster):
    await cluster.join(1)
    await cluster.elected()
    await cluster.create("t", [1], [2])
    await until(lambda: cluster.knows(1, "t", 0) == 1, "it is told")
    await cluster.join(2)
    await until(lambda: cluster.leads(2, "t", 1) and cluster.knows(1, "t", 1) == 2, "it is told")
    [full] = cluster.told(2, LeaderAndIsrRequest)
    assert len(full.topic_states) == 1
    assert cluster.knows(2, "t", 0) == 1
    assert cluster.live(1) == [1, 2]


async def test_partitions_with_one_replica_have_no_leader_until_their_broker_is_back(cluster):
    await cluster.join(1)
    await cluster.elected()
    await cluster.join(2)
    await cluster.create("t", [2])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    await cluster.leave(2)
    await until(lambda: cluster.knows(1, "t") == -1, "it has none")
    assert cluster.state("t").isr == [2]  # it has the data
    assert cluster.leader("t") == (-1, 1)
    cluster.said.clear()
    await cluster.join(2)
    await until(lambda: cluster.leads(2, "t") == (2, 2, False), "it leads again")
    assert cluster.knows(1, "t") == 2


async def test_a_broker_that_registers_again_at_once_has_lost_its_leaderships(cluster):
    await cluster.join(1)
    await cluster.elected()
    await cluster.join(2, runs=False)
    await cluster.create("t", [2])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    path = BrokerZnode.path(2)
    data, _ = await cluster.admin.get(path)
    cluster.said.clear()
    await cluster.admin.multi([Delete(path), Create(path, data)])
    await until(lambda: cluster.leads(2, "t") == (2, 2, False), "it is told, with a newer epoch")
    assert cluster.told(2, LeaderAndIsrRequest)[-1].broker_epoch == (await cluster.admin.exists(path)).czxid
    await cluster.admin.delete(path)


async def test_a_broker_that_registers_again_while_its_loss_is_handled_has_lost_its_leaderships(cluster):
    member = await cluster.join(1)
    await cluster.elected()
    for broker_id in (2, 3):
        await cluster.join(broker_id, runs=False)
    await cluster.create("t", [2, 3])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    path = BrokerZnode.path(2)
    data, _ = await cluster.admin.get(path)
    write = member.registry.multi

    async def register_when_refused(ops):
        try:
            return await write(ops)
        except BadVersionError:
            await cluster.admin.create(path, data)
            raise

    member.registry.multi = register_when_refused
    await cluster.admin.set(PartitionStateZnode.path("t", 0), cluster.node(PartitionStateZnode.path("t", 0)))
    await cluster.admin.delete(path)
    await until(lambda: cluster.leads(3, "t") == (3, 1, False), "the other one leads")
    await cluster.admin.delete(path)


@pytest.mark.parametrize(
    ("isr", "unclean", "expected"),
    [([2, 3], False, (3, 1)), ([2], False, (-1, 1)), ([2], True, (3, 1))],
)
async def test_the_leader_after_a_broker_is_lost(cluster, isr, unclean, expected):
    await cluster.join(1)
    await cluster.elected()
    for broker_id in (2, 3):
        await cluster.join(broker_id)
    if unclean:
        cluster.unclean_topics.add("t")
    await cluster.create("t", [2, 3])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    shrunk = cluster.state("t").replace(isr=isr)  # as the leader changes it; the controller has not heard
    await cluster.admin.set(PartitionStateZnode.path("t", 0), shrunk.encode())
    await cluster.leave(2)
    await until(lambda: cluster.knows(1, "t") == expected[0], "it is decided")
    assert cluster.leader("t") == expected
    assert cluster.state("t").isr == ([3] if expected[0] == 3 else [2])


async def test_states_that_a_lost_leader_has_changed_are_read_again_together(cluster, caplog):
    caplog.set_level("INFO", "broker.controller.event_queue")
    await cluster.join(1)
    await cluster.elected()
    for broker_id in (2, 3):
        await cluster.join(broker_id)
    await cluster.create("t", *[[2, 3]] * 3)
    await until(lambda: all(cluster.leads(2, "t", number) for number in range(3)), "it leads")
    caplog.clear()
    for number in range(3):  # the controller has not heard of them
        shrunk = cluster.state("t", number).replace(isr=[2])
        await cluster.admin.set(PartitionStateZnode.path("t", number), shrunk.encode())
    await cluster.leave(2)
    await until(lambda: all(cluster.leader("t", number) == (-1, 1) for number in range(3)), "none may lead")
    assert len(caplog.messages) == 1, "the first attempt found all changes"


async def test_a_partition_whose_state_was_deleted_gets_a_new_one_when_its_leader_is_lost(cluster):
    await cluster.join(1)
    await cluster.elected()
    for broker_id in (2, 3):
        await cluster.join(broker_id)
    await cluster.create("t", [2, 3])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    await cluster.admin.delete(PartitionStateZnode.path("t", 0))
    await cluster.leave(2)
    await until(lambda: cluster.leads(3, "t") == (3, 0, True), "it leads from the first epoch")


async def test_a_lost_leader_is_announced_although_the_answer_to_the_transaction_is_lost(cluster):
    first = await cluster.join(1)
    await cluster.elected()
    await cluster.join(2)
    await cluster.create("t", [2])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    first.registry.losses = 1
    await cluster.leave(2)
    await until(lambda: cluster.knows(1, "t") == -1, "it has none")
    assert cluster.leader("t") == (-1, 1)  # once


async def test_a_new_controller_sends_the_full_state_to_all_brokers(cluster):
    await cluster.join(1)
    await cluster.elected()
    await cluster.join(2)
    await cluster.create("t", [2])
    await until(lambda: cluster.leads(2, "t"), "it leads")
    cluster.said.clear()
    await cluster.leave(1)
    await cluster.elected()
    [full] = cluster.told(2, LeaderAndIsrRequest)
    assert (full.controller_id, full.controller_epoch) == (2, 2)
    assert cluster.leads(2, "t") == (2, 0, False)


@pytest.mark.parametrize(
    ("restarted", "leader", "epoch", "isr"),
    [
        ([2], 3, 2, [3]),  # it lost its leader, then there was an election
        ([3], 2, 1, [2]),
        ([2, 3], 2, 0, [2, 3]),  # nobody is better
        ([], 2, 0, [2, 3]),
    ],
)
async def test_a_broker_restarted_without_a_controller_is_not_in_sync(cluster, restarted, leader, epoch, isr):
    await cluster.join(1)
    await cluster.elected()
    for broker_id in (2, 3):
        await cluster.join(broker_id, runs=False)
    await cluster.create("t", [2, 3])
    await cluster.create("u", [2])
    await until(lambda: cluster.leads(2, "t") and cluster.leads(2, "u"), "both are led")
    await cluster.leave(1)
    for broker_id in restarted:
        path = BrokerZnode.path(broker_id)
        data, _ = await cluster.admin.get(path)
        await cluster.admin.multi([Delete(path), Create(path, data)])
    await cluster.join(4)
    await cluster.elected()
    await until(lambda: cluster.knows(4, "t") == leader and cluster.knows(4, "u") == 2, "there are leaders")
    assert (cluster.state("t").isr, cluster.state("t").leader_epoch) == (isr, epoch)
    await until(lambda: cluster.leads(2, "t")[:2] == (leader, epoch), "it is told")
    assert cluster.state("u").isr == [2]
    for broker_id in restarted:
        await cluster.admin.delete(BrokerZnode.path(broker_id))

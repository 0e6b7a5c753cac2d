"""A consumer's part in its group in ZooKeeper: claims whose outcome is not known, and nodes of others."""

import asyncio

import pytest

from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff
from client.zookeeper.assignment import ConsumerThread
from client.zookeeper.group import ZooKeeperGroup
from client.zookeeper.layout import Member, TodaysLayout
from registry.errors import ConnectionLossError, NoNodeError
from registry.interface import ConnectionState
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from support.polling import until
from support.zookeeper import heard, new_chroot, proxied, shared_zookeeper

OWNERS = "/consumers/g/owners/orders"


@pytest.fixture
async def stage():
    """A registry that looks on, and a group whose connection can be cut."""
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    other = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
    await other.start()
    async with proxied(connect) as (proxy, through):
        own = ZooKeeperRegistry(ZooKeeperAddress.parse(through))
        await own.start()
        group = ZooKeeperGroup(
            own,
            "g",
            "g_one",
            Member({"orders": 1}, "static"),
            TodaysLayout(),
            exclude_internal_topics=True,
            on_change=lambda: None,
            backoff=Backoff(1, 5),
        )
        await group.register()
        await group.claim(*claims(9))
        yield group, own, other, proxy
        await own.close()
    await other.close()


def claims(*numbers):
    partitions = [TopicPartition("orders", number) for number in numbers]
    return dict.fromkeys(partitions, ConsumerThread("g_one", 0)), {one: str(one.partition) for one in partitions}


async def test_all_partitions_are_claimed_or_none(stage):
    group, _, other, _ = stage
    await other.create(f"{OWNERS}/1", b"g_two-0", ephemeral=True)
    assert await group.claim(*claims(0, 1, 2)) == [f"{OWNERS}/1"]
    assert sorted(await other.children(OWNERS)) == ["1"]
    await other.delete(f"{OWNERS}/1")
    assert await group.claim(*claims(0, 1, 2)) == []
    assert sorted(await other.children(OWNERS)) == ["0", "1", "2"]
    await group.release()
    assert await other.children(OWNERS) == []


async def test_an_unregistered_consumer_cannot_claim_partitions(stage):
    group, _, other, _ = stage
    await other.delete("/consumers/g/ids/g_one")
    assert not await group.prove_alive()
    with pytest.raises(NoNodeError):
        await group.claim(*claims(0))
    assert sorted(await other.children(OWNERS)) == ["9"]


async def test_a_claim_whose_answer_is_lost_is_released(stage):
    group, own, other, proxy = stage
    await other.create(f"{OWNERS}/2", b"g_two-0", ephemeral=True)
    for numbers in ((0, 1), (2,)):
        await group.release()
        proxy.stall(answers_only=True)
        claiming = asyncio.create_task(group.claim(*claims(*numbers)))

        async def is_applied(numbers=numbers):
            return numbers == (2,) or len(await other.children(OWNERS)) == 1 + len(numbers)

        await until(is_applied, "the servers have made the nodes")
        async with heard(own, ConnectionState.CONNECTED):
            proxy.drop()
        with pytest.raises(ConnectionLossError):
            await claiming
        await group.release()
        assert await other.children(OWNERS) == ["2"]


async def test_a_deleted_parent_znode_is_recreated(stage):
    group, _, other, _ = stage
    await group.release()
    await other.delete(OWNERS)
    with pytest.raises(NoNodeError):
        await group.claim(*claims(0))
    assert await group.claim(*claims(0)) == []


async def test_nodes_of_other_consumers_are_not_deleted(stage):
    group, _, other, _ = stage
    await other.delete(f"{OWNERS}/9")
    await other.create(f"{OWNERS}/9", b"g_two-0", ephemeral=True)
    await group.release()

    async def is_there():
        return (await other.get(f"{OWNERS}/9"))[0] == b"g_two-0"

    await until(is_there, "the node of another")
    assert group._claimed == set()

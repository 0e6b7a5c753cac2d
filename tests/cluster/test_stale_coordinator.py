"""A coordinator that cannot reach the registry: it answers from its memory if it is still the coordinator."""

from __future__ import annotations

import pytest

from ottla.cluster.local_registry import LocalRegistry
from protocol.error_codes import ErrorCode
from support.groups import commit, fetch_offsets
from support.linked_cluster import BROKERS, linked_cluster
from support.polling import until
from support.transactions import TransactionalProducer, find_transactions

OFFSETS = "__consumer_offsets"
TRANSACTIONS = "__transaction_state"
SETTINGS = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}


@pytest.fixture
async def cluster(tmp_path):
    """Three brokers and an `ottla registry`; broker 0 coordinates all groups and transactions."""
    registry = LocalRegistry()
    await registry.start()
    try:
        await registry.wait()
        async with linked_cluster(tmp_path, registry, **SETTINGS) as cluster:
            for topic in (OFFSETS, TRANSACTIONS, "t"):
                await cluster.create_topic(topic, {0: BROKERS})
            yield cluster
    finally:
        registry.close()


async def commits(client, offset):
    """Commit an offset of the group g at its coordinator."""

    async def is_committed():
        return await commit(client.call, "g", "t", offset) == ErrorCode.NONE

    await until(is_committed, f"offset {offset} is committed")


async def replaced(cluster, topic):
    """Cut broker 0 off from the registry, wait until another broker leads the topic, and return its id."""
    cluster.cut_from_zookeeper(0, silently=True)

    async def is_replaced():
        return (await cluster.state(topic))["leader"] not in (0, -1)

    await until(is_replaced, f"another broker leads {topic}")
    return (await cluster.state(topic))["leader"]


async def test_a_replaced_coordinator_does_not_answer_with_old_offsets(cluster):
    async with cluster.wire(0) as old:
        await commits(old, 1)
        async with cluster.wire(await replaced(cluster, OFFSETS)) as new:
            await commits(new, 2)
            answer = await fetch_offsets(old.call, "g", "t", 0)
            assert answer == (ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
            assert (await fetch_offsets(new.call, "g", "t", 0))[1][0][0] == 2
        await cluster.heal_zookeeper(0)

        async def is_told():
            return (await fetch_offsets(old.call, "g", "t", 0))[0] == ErrorCode.NOT_COORDINATOR

        await until(is_told, "the old coordinator knows that it is none")


async def test_a_replaced_coordinator_does_not_take_a_transaction_for_the_one_before(cluster):
    async with cluster.wire(0) as old:
        await find_transactions(old.call, "mine")
        before = TransactionalProducer(old.call, "mine")
        await before.begin()
        await before.added("t", 0)
        await before.ended(True)
        assert await before.end(True) == ErrorCode.NONE  # repeated, as if the answer had been lost
        async with cluster.wire(await replaced(cluster, TRANSACTIONS)) as new:
            after = TransactionalProducer(new.call, "mine")
            after.producer_id, after.producer_epoch = before.producer_id, before.producer_epoch
            await after.added("t", 0)
            assert await before.end(True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await after.ended(True)


async def test_offsets_are_read_while_nobody_reaches_the_registry(cluster):
    async with cluster.wire(0) as client:
        await commits(client, 1)
        for broker in BROKERS:
            cluster.cut_from_zookeeper(broker, silently=False)
        for offset in range(2, 5):
            await commits(client, offset)
            assert (await fetch_offsets(client.call, "g", "t", 0))[1][0][0] == offset

"""What the console tells of groups and transactions, held to what members and producers did."""

from __future__ import annotations

import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families as parse_text

from broker.console.exposition import Exposition
from broker.console.metrics import METRICS, Source
from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import running_broker
from support.console import READS_ALL
from support.polling import until

GROUP_STATES = {
    "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Assigning", "Reconciling",
}  # fmt: skip


@pytest_asyncio.fixture
async def broker(tmp_path):
    """With a topic "t" of two partitions, five records in the second."""
    async with running_broker(tmp_path / "data", group_initial_rebalance_delay_ms="0") as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("t", 2)
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(5):
                await producer.send("t", b"v", partition=1)
        yield broker


def read(broker, name):
    """A metric's readings that are not 0, by label values."""
    metric = next(one for one in METRICS if one.name == name)
    return {labels: value for labels, value in metric.read(Source(broker.services, broker.acceptors, "0")) if value}


async def consume(broker, group_id, protocol):
    """Join, read three records, commit; what is told meanwhile, and the generation."""
    servers = broker.bootstrap_servers
    options = {"bootstrap_servers": servers, "group_id": group_id, "group_protocol": protocol}
    async with Consumer("t", auto_offset_reset="earliest", enable_auto_commit=False, **options) as consumer:
        await consumer.getmany(max_records=3)
        await consumer.commit()
        await until(lambda: read(broker, "ottla_groups") == {("Stable",): 1}, "the group is stable")
        assert read(broker, "ottla_group_members") == {(group_id,): 1}
        return read(broker, "ottla_group_generation")[group_id,]


async def test_metrics_of_a_classic_group(broker):
    assert read(broker, "ottla_groups") == {}
    assert await consume(broker, "g", "classic") == 1
    await until(lambda: read(broker, "ottla_groups") == {("Empty",): 1}, "its member has left")
    assert read(broker, "ottla_group_members") == {}
    assert read(broker, "ottla_group_generation") == {("g",): 2}
    assert read(broker, "ottla_group_committed_offset") == {("g", "t", "1"): 3}
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.delete_groups(["g"])
    assert read(broker, "ottla_groups") == read(broker, "ottla_group_committed_offset") == {}


async def test_metrics_of_a_consumer_group(broker):
    epoch = await consume(broker, "g", "consumer")
    await until(lambda: read(broker, "ottla_groups") == {("Empty",): 1}, "its member has left")
    assert read(broker, "ottla_group_generation")["g",] > epoch >= 1
    assert read(broker, "ottla_group_committed_offset") == {("g", "t", "1"): 3}


async def test_every_state_is_exported_and_any_group_id_can_be_parsed(broker):
    group_id = 'a "group"\nof \\ ours'
    await consume(broker, group_id, "classic")
    assert broker.services is not None
    body, _ = await Exposition(broker.services, broker.acceptors, "0").render("", READS_ALL)
    samples = [sample for family in parse_text(body.decode()) for sample in family.samples]
    assert {sample.labels["state"] for sample in samples if sample.name == "ottla_groups"} == GROUP_STATES
    (committed,) = [
        sample
        for sample in samples
        if sample.name == "ottla_group_committed_offset" and sample.labels["partition"] == "1"
    ]
    assert (committed.labels["group"], committed.labels["topic"], committed.value) == (group_id, "t", 3)


async def test_metrics_of_transactions_and_their_offsets(broker):
    async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
        assert read(broker, "ottla_transactional_ids") == {("Empty",): 1}
        async with producer.transaction():
            await producer.send("t", b"v", partition=0)
            assert read(broker, "ottla_transactional_ids") == {("Ongoing",): 1}
            await producer.send_offsets({TopicPartition("t", 0): 7}, "g")
            assert read(broker, "ottla_group_committed_offset") == {}
        await until(lambda: read(broker, "ottla_transactional_ids") == {("CompleteCommit",): 1}, "it has ended")
        assert read(broker, "ottla_group_committed_offset") == {("g", "t", "0"): 7}

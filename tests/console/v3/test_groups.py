"""Consumer groups, their members and their lag over the REST API."""

import pytest

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.deadlines import DEADLINE_S
from support.polling import until

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.fixture(scope="module")
def broker_settings():
    return {"group.initial.rebalance.delay.ms": "0", "num.partitions": "2"}


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
async def records(broker):
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, count in ((0, 5), (1, 2)):
            for number in range(count):
                await producer.send("orders", b"%d" % number, partition=partition)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_with_a_member(broker, rest, admin, records, protocol):
    group_id = f"{protocol}/billing"  # a name that a URL must quote
    options = {"group_id": group_id, "auto_offset_reset": "earliest", "client_id": "till"}
    async with Consumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_protocol=protocol, **options
    ) as consumer:
        await until(lambda: set(ORDERS) <= set(consumer.assignment()), "the partitions are assigned")
        await consumer.commit({ORDERS[0]: 1, ORDERS[1]: 0})
        path = f"consumer-groups/{protocol}%2Fbilling"

        async def stable():
            group = await rest.get(path)
            return group["state"] == "STABLE" and group

        group = await until(stable, "the group is stable")
        assert (group["type"], group["is_simple"]) == (protocol.upper(), False)
        assert group["partition_assignor"]
        assert group["coordinator"]["related"] == rest.full("brokers/0")
        assert group in (await rest.get("consumer-groups"))["data"]

        (member,) = (await rest.get(f"{path}/consumers"))["data"]
        assert member["client_id"] == "till"
        assert await rest.get(f"{path}/consumers/{member['consumer_id']}") == member
        assignments = (await rest.get(member["assignments"]["related"].removeprefix(rest.url)))["data"]
        assert [(one["topic_name"], one["partition_id"]) for one in assignments] == ORDERS
        first = assignments[0]
        assert await rest.get(first["metadata"]["self"].removeprefix(rest.url)) == first

        lag = await rest.get(first["lag"]["related"].removeprefix(rest.url))
        ends = await admin.list_offsets(dict.fromkeys(ORDERS, -1))
        assert (lag["current_offset"], lag["log_end_offset"]) == (1, ends[ORDERS[0]].offset)
        assert (lag["lag"], lag["consumer_id"]) == (ends[ORDERS[0]].offset - 1, member["consumer_id"])
        summary = await rest.get(group["lag_summary"]["related"].removeprefix(rest.url))
        assert (summary["max_lag"], summary["max_lag_partition_id"]) == (lag["lag"], 0)
        assert summary["total_lag"] == lag["lag"] + ends[ORDERS[1]].offset
        assert summary["max_lag_consumer_id"] == member["consumer_id"]


async def test_a_group_without_members(rest, admin, records):
    await admin.create_topic("short", 1)
    offsets = {ORDERS[0]: OffsetAndMetadata(2), TopicPartition("short", 0): OffsetAndMetadata(7)}

    async def are_committed():
        return set((await admin.alter_group_offsets("simple", offsets)).values()) == {None}

    await until(are_committed, "both offsets are committed")
    group = await rest.get("consumer-groups/simple")
    assert (group["state"], group["is_simple"]) == ("EMPTY", True)
    first, second = (await rest.get("consumer-groups/simple/lags"))["data"]
    assert (first["consumer_id"], first["current_offset"]) == ("", 2)
    assert (second["topic_name"], second["lag"]) == ("short", 0)  # committed beyond the end
    await admin.delete_topic("short")

    async def is_gone():
        return len((await rest.get("consumer-groups/simple/lags"))["data"]) == 1

    await until(is_gone, "the lag of a deleted topic is gone", 2 * DEADLINE_S)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("consumer-groups/nobody", "nobody"),
        ("consumer-groups/nobody/lags", "nobody"),
        ("consumer-groups/known/consumers/x", "no member x"),
        ("consumer-groups/known/lags/orders/partitions/1", "no committed offset of orders-1"),
    ],
)
async def test_what_does_not_exist(rest, admin, records, path, text):
    await admin.alter_group_offsets("known", {ORDERS[0]: OffsetAndMetadata(0)})
    answer = await rest.ask("GET", path)
    assert answer.status == 404, answer
    assert text in answer.body["message"]

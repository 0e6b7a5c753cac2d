"""Resets of offsets with a plan before, deletions of offsets and of groups."""

import pytest

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.polling import until
from support.quick_groups import BROKER_SETTINGS, quick_consumer

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
PATH = "/api/v1/groups/billing"
COMMITTED = {PARTITIONS[0]: OffsetAndMetadata(3, 0, "by hand"), PARTITIONS[1]: OffsetAndMetadata(0)}


@pytest.fixture(scope="module")
def broker_settings():
    return BROKER_SETTINGS | {"num.partitions": "2", "log.retention.ms": "-1"}


@pytest.fixture
async def admin(broker):
    """An admin client; the group billing has the offsets 3 and 0 of the topic, whose logs end at 5 and 0."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        if "orders" not in await opened.list_topics():
            async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                for number in range(5):
                    await producer.send("orders", b"%d" % number, partition=0, timestamp_ms=1000 + number)

        async def are_committed():
            return not any((await opened.alter_group_offsets("billing", COMMITTED)).values())

        await until(are_committed, "the offsets are committed")
        yield opened


def changes(plan):
    return [(one["partition"], one["current"], one["new"], one["note"]) for one in plan["offsets"]]


@pytest.mark.parametrize(
    ("asked", "planned"),
    [
        ({"to": "earliest"}, [(0, 3, 0, None), (1, 0, 0, None)]),
        ({"to": "latest", "topic": "orders", "partitions": [0]}, [(0, 3, 5, None)]),
        ({"to": "time", "value": 1002, "topic": "orders", "partitions": [0]}, [(0, 3, 2, None)]),
        (
            {"to": "time", "value": 2000, "topic": "orders", "partitions": [0]},
            [(0, 3, 5, "no record since this time: the end")],
        ),
        ({"to": "duration", "value": 0, "topic": "orders", "partitions": [0]}, None),
        ({"to": "shift", "value": -2}, [(0, 3, 1, None), (1, 0, 0, "-2 is before the first record")]),
        ({"to": "offset", "value": 9}, [(0, 3, 5, "9 is after the end"), (1, 0, 0, "9 is after the end")]),
        (
            {"to": "explicit", "offsets": [{"topic": "orders", "partition": 0, "offset": 4}]},
            [(0, 3, 4, None)],
        ),
    ],
)
async def test_plans(rest, admin, asked, planned):
    answer = await rest.ask("POST", f"{PATH}/offsets:plan", asked)
    assert answer.status == 200, answer
    if planned is None:
        planned = [(0, 3, 5, "no record since this time: the end")]
    assert changes(answer.body) == planned
    assert (await admin.list_group_offsets("billing"))[PARTITIONS[0]].offset == 3


async def test_a_plan_has_what_was_committed_with_an_offset(rest, admin):
    plan = (await rest.ask("POST", f"{PATH}/offsets:plan", {"to": "earliest"})).body
    assert [(one["leader_epoch"], one["metadata"]) for one in plan["offsets"]] == [(0, "by hand"), (-1, "")]


async def test_a_plan_is_applied_once(rest, admin):
    plan = (await rest.ask("POST", f"{PATH}/offsets:plan", {"to": "earliest"})).body
    offsets = [
        {"topic": one["topic"], "partition": one["partition"], "offset": one["new"], "current": one["current"]}
        for one in plan["offsets"]
    ]
    answer = await rest.ask("POST", f"{PATH}/offsets:apply", {"offsets": offsets})
    assert (answer.status, answer.body) == (200, {"changed": 2})
    assert (await admin.list_group_offsets("billing"))[PARTITIONS[0]].offset == 0
    again = await rest.ask("POST", f"{PATH}/offsets:apply", {"offsets": offsets})
    assert again.status == 409
    assert "has changed since the plan" in again.body["message"]


@pytest.mark.parametrize(
    ("group", "asked", "status", "text"),
    [
        ("billing", {"to": "somewhere"}, 400, "to"),
        ("billing", {"to": "shift"}, 400, "needs a number"),
        ("billing", {"to": "time", "value": -1}, 400, "from 0 on"),
        ("billing", {"to": "latest", "topic": "none"}, 404, "there is no topic none"),
        ("nobody", {"to": "latest"}, 404, "there is no group nobody"),
    ],
)
async def test_what_cannot_be_planned(rest, admin, group, asked, status, text):
    answer = await rest.ask("POST", f"/api/v1/groups/{group}/offsets:plan", asked)
    assert answer.status == status, answer
    assert text in answer.body["message"]


async def test_offsets_that_cannot_be_shifted_or_do_not_exist_are_said(rest, admin):
    await admin.delete_group_offsets("billing", [PARTITIONS[1]])
    plan = (await rest.ask("POST", f"{PATH}/offsets:plan", {"to": "shift", "value": 1, "topic": "orders"})).body
    assert changes(plan) == [(0, 3, 4, None)]
    assert plan["problems"] == ["orders-1 has no committed offset to shift."]
    body = {"to": "latest", "topic": "orders", "partitions": [0, 7]}
    assert (await rest.ask("POST", f"{PATH}/offsets:plan", body)).body["problems"] == ["orders-7 does not exist."]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_nothing_is_changed_while_the_group_has_members(broker, rest, admin, protocol):
    options = {"group_id": f"busy-{protocol}", "group_protocol": protocol}
    path = f"/api/v1/groups/busy-{protocol}"
    async with quick_consumer(broker.bootstrap_servers, "orders", **options) as consumer:
        await until(lambda: consumer.assignment(), "partitions are assigned")
        await consumer.commit({PARTITIONS[0]: 1})
        change = {"topic": "orders", "partition": 0, "offset": 0, "current": 1}
        for method, where, body in (
            ("POST", "/offsets:plan", {"to": "earliest"}),
            ("POST", "/offsets:apply", {"offsets": [change]}),
            ("DELETE", "/offsets/orders", None),
            ("DELETE", "", None),
        ):
            answer = await rest.ask(method, path + where, body)
            assert answer.status == 409, (where, answer)
            assert f"busy-{protocol}" in answer.body["message"]


async def test_offsets_of_a_topic_and_then_the_group_are_deleted(rest, admin):
    answer = await rest.ask("DELETE", f"{PATH}/offsets/orders")
    offsets = [
        {"topic": "orders", "partition": partition.partition, **committed._asdict()}
        for partition, committed in COMMITTED.items()
    ]
    assert (answer.status, answer.body) == (200, {"changed": 2, "offsets": offsets})
    assert await admin.list_group_offsets("billing") == {}
    assert (await rest.ask("DELETE", f"{PATH}/offsets/orders")).status == 404


async def test_deleted_offsets_are_restored_when_their_group_is_gone(rest, admin):
    deleted = (await rest.ask("DELETE", f"{PATH}/offsets/orders")).body["offsets"]
    await admin.delete_groups(["billing"])
    wrong = [one | {"current": 3} for one in deleted]
    refused = await rest.ask("POST", f"{PATH}/offsets:apply", {"offsets": wrong})
    assert (refused.status, "has changed since the plan" in refused.body["message"]) == (409, True)
    assert "billing" not in [one.group_id for one in await admin.list_groups()]
    restored = [one | {"current": None} for one in deleted]
    answer = await rest.ask("POST", f"{PATH}/offsets:apply", {"offsets": restored})
    assert (answer.status, answer.body) == (200, {"changed": 2})
    assert await admin.list_group_offsets("billing") == COMMITTED


async def test_a_group_is_deleted(rest, admin):
    assert (await rest.ask("DELETE", PATH)).status == 204
    assert (await rest.ask("DELETE", PATH)).status == 404

"""Groups for the pages: list, lag, members with their partitions, history and timeline."""

import pytest

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.polling import until
from support.quick_groups import BROKER_SETTINGS, quick_consumer

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@pytest.fixture(scope="module")
def broker_settings():
    return BROKER_SETTINGS | {"num.partitions": "2"}


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        if "orders" not in await opened.list_topics():
            async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                for number in range(5):
                    await producer.send("orders", b"%d" % number, partition=0)
        yield opened


async def commit(admin, group_id, offset=1):
    async def is_committed():
        done = await admin.alter_group_offsets(group_id, {PARTITIONS[0]: OffsetAndMetadata(offset, metadata="note")})
        return not any(done.values())

    await until(is_committed, "the offset is committed")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_with_members(broker, rest, admin, protocol):
    group_id = f"{protocol}/billing"  # a name that a URL must quote
    path = f"/api/v1/groups/{protocol}%2Fbilling"
    options = {"group_id": group_id, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    async with quick_consumer(broker.bootstrap_servers, "orders", client_id="till", **options) as consumer:
        await until(lambda: set(PARTITIONS) == set(consumer.assignment()), "the partitions are assigned")
        await consumer.commit({PARTITIONS[0]: 2})

        async def stable():
            group = await rest.get(path)
            return group if group["state"] == "Stable" and len(group["members"]) == 1 else None

        group = await until(stable, "the group is stable")
        assert (group["type"], group["problems"], group["lag"]) == (protocol, [], 3)
        assert group["coordinator"] == {"broker_id": 0, "address": broker.bootstrap_servers}
        (member,) = group["members"]
        assert (member["client_id"], member["assigned"]) == ("till", [{"topic": "orders", "partitions": [0, 1]}])
        first, second = group["partitions"]
        assert (first["committed"], first["end"], first["lag"]) == (2, 5, 3)
        assert first["member_id"] == second["member_id"] == member["member_id"]
        assert second["committed"] is second["progress"] is None
        if protocol == "consumer":
            assert group["epoch"] == group["assignment_epoch"] == member["epoch"]
            assert member["target"] == member["assigned"]
        else:
            assert group["epoch"] is member["epoch"] is None

        history = await rest.get(f"{path}/lag-history")
        assert history["total"][-1] == 3
        assert len(history["times_ms"]) == len(history["total"])
        assert [(one["partition"], one["lags"][-1]) for one in history["partitions"]] == [(0, 3)]

    async def without_members():
        timeline = await rest.get(f"{path}/timeline")
        return timeline if timeline["states"][-1]["state"] == "Empty" else None

    timeline = await until(without_members, "the member has left")
    (lane,) = timeline["members"]
    assert (lane["client_id"], lane["counts"][-1][1]) == ("till", 2)
    assert lane["from_ms"] <= lane["to_ms"] <= timeline["now_ms"]
    assert "left" in [one["kind"] for one in timeline["events"]]


async def test_the_list_and_the_lags(rest, admin):
    await commit(admin, "listed")
    listed = await rest.get("/api/v1/groups")
    (row,) = [one for one in listed["groups"] if one["group_id"] == "listed"]
    assert row == {"group_id": "listed", "state": "Empty", "type": "classic", "protocol_type": "", "coordinator": 0}
    assert (listed["total"], listed["problems"]) == (len(listed["groups"]), [])

    async def is_known():
        lags = await rest.get("/api/v1/group-lags")
        return {"group_id": "listed", "state": "Empty", "members": 0, "lag": 4} in lags["groups"]

    await until(is_known, "the lag of the new group is known")


async def test_a_group_that_does_not_exist(rest):
    for path in ("nobody", "nobody/timeline", "nobody/lag-history"):
        answer = await rest.ask("GET", f"/api/v1/groups/{path}")
        assert answer.status == 404, answer
        assert "nobody" in answer.body["message"]

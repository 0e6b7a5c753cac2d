"""The timeline of a group in the console of its coordinator."""

import pytest
import pytest_asyncio

from broker.inspection import rebalances
from broker.inspection.rebalances import Rebalances
from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.topic_partition import TopicPartition
from support.console import console_broker
from support.own_console import listening, own_console
from support.polling import until
from support.quick_groups import BROKER_SETTINGS, PROTOCOLS, quick_consumer

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS = "/api/v1/inside/groups/events"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with console_broker(
        tmp_path_factory.mktemp("inside"), BROKER_SETTINGS | {"offsets.topic.num.partitions": "1"}
    ) as running:
        async with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            await admin.create_topic("t", 2)
            offsets = {TopicPartition("t", 0): OffsetAndMetadata(0)}
            await admin.alter_group_offsets("ready", offsets)  # creates the topic of the groups
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(broker):
    async with own_console(broker) as api:
        await until(lambda: is_ready(broker), "the broker coordinates groups")
        yield api


def is_ready(broker):
    groups = broker.services.coordination.groups
    return not any(isinstance(groups.find(one), int) for one in ("ready", *PROTOCOLS))


async def up_to(events, seen, kind, value=None):
    """Read events until one of this kind."""
    while True:
        one = await events.next("group")
        seen.append(one)
        if one["kind"] == kind and value in (None, one["value"]):
            return one


@pytest.mark.parametrize("protocol", ["eager", "consumer"])
async def test_a_member_that_comes_and_goes(broker, rest, protocol):
    servers, seen = broker.bootstrap_servers, []
    async with listening(rest, f"{EVENTS}?group={protocol}") as events:
        async with quick_consumer(servers, "t", group_id=protocol, client_id="c", **PROTOCOLS[protocol]):
            joined = await up_to(events, seen, "JOINED")
            assert joined["client_id"] == "c"
            await up_to(events, seen, "STATE", "Stable")
        left = await up_to(events, seen, "LEFT")
        assert left["value"] == joined["value"]
        await up_to(events, seen, "STATE", "Empty")
    assert "GENERATION" in [one["kind"] for one in seen]
    assert [one["number"] for one in seen] == sorted(one["number"] for one in seen)
    await until(lambda: not broker.services.coordination.groups.watchers, "nobody watches")


@pytest.mark.parametrize("protocol", ["eager", "consumer"])
async def test_a_member_that_was_there_before(broker, rest, protocol):
    servers, seen, group = broker.bootstrap_servers, [], f"before-{protocol}"
    async with quick_consumer(servers, "t", group_id=group, client_id="c", **PROTOCOLS[protocol]):
        async with listening(rest, f"{EVENTS}?group={group}") as events:
            await up_to(events, [], "STATE", "Stable")
        async with listening(rest, f"{EVENTS}?group={group}") as events:
            await up_to(events, seen, "STATE")
    assert [one["kind"] for one in seen] == ["PRESENT", "GENERATION", "STATE"]
    assert seen[0]["client_id"] == "c"


async def test_a_timeline_has_a_limit(broker, rest, monkeypatch):
    monkeypatch.setattr(rebalances, "MAX_EVENTS", 3)
    timeline = Rebalances(broker.services).watch("eager")
    for number in range(5):
        timeline._add("STATE", str(number))
    assert [one.value for one in timeline.after(0)] == ["2", "3", "4"]
    timeline.close()
    timeline.close()


async def test_a_group_needs_a_name(rest):
    assert (await rest.ask("GET", EVENTS)).status == 400

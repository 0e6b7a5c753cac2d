"""The console of each broker of a cluster of three: all show the whole cluster, also while one does not answer."""

import contextlib
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from ottla import Admin, OffsetAndMetadata, TopicPartition
from support.console_cluster import BROKERS, console_cluster
from support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

MEMBER = {"zookeeper.session.timeout.ms": "300000"}
"""A broker that is paused stays a member of the cluster."""


@pytest.fixture(scope="module")
def cluster():
    with console_cluster(MEMBER) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def consoles(browser, cluster):
    async with contextlib.AsyncExitStack() as stack:
        yield {broker: await stack.enter_async_context(cluster.pages(browser, broker)) for broker in BROKERS}


@pytest.mark.parametrize("broker", BROKERS)
async def test_the_console_of_each_broker_shows_and_changes_the_whole_cluster(consoles, broker):
    name = f"from-{broker}"
    async with consoles[broker].at("/") as page:
        await expect(page.locator("#session")).to_have_text(f"broker {broker}")
        await expect(page.get_by_text(re.compile("^The cluster is healthy.* 3 brokers"))).to_be_visible()
    made = {"topic_name": name, "partitions_count": 3, "replication_factor": 3}
    assert (await consoles[broker].rest.ask("POST", "topics", made)).status == 201
    for other in BROKERS:
        async with consoles[other].at("/topics") as page:
            await expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    async with consoles[broker].at(f"/topics/{name}/danger") as page:
        await page.get_by_role("button", name="Delete topic…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("textbox").fill(name)
        await dialog.get_by_role("button", name="Delete topic").click()
        await expect(page.get_by_text(f"Topic {name} was deleted.")).to_be_visible()


async def test_pages_show_what_is_known_while_a_broker_does_not_answer(consoles, cluster):
    made = {"topic_name": "kept", "partitions_count": 3, "replication_factor": 1}
    assert (await consoles[1].rest.ask("POST", "topics", made)).status == 201
    cluster.cluster.pause_broker(3)
    try:
        for broker in (1, 2):
            async with consoles[broker].at("/") as page:
                await expect(page.get_by_text("Broker 3 did not answer within 3 s.").first).to_be_visible()
            async with consoles[broker].at("/topics") as page:
                await expect(page.get_by_role("link", name="kept", exact=True)).to_be_visible()
            async with consoles[broker].at("/topics/kept/consumers") as page:
                await expect(page.get_by_text("Broker 3 did not answer within 3 s.").first).to_be_visible()
                await expect(page.get_by_role("heading", name="No group is known to read this topic")).to_be_visible()
    finally:
        cluster.cluster.resume_broker(3)


async def test_a_timeline_names_the_coordinator_where_another_broker_is_it(consoles, cluster):
    where = "/api/v1/inside/groups/coordinator?group=readers"
    assert await consoles[1].rest.get(where) == {"coordinator": None, "is_here": False}
    assert (await consoles[1].rest.ask("GET", "/api/v1/inside/groups/events?group=readers")).status == 503
    async with consoles[1].at("/inside/groups?group=readers") as page:
        await expect(page.get_by_text("readers has no coordinator now")).to_be_visible()
    made = {"topic_name": "read", "partitions_count": 1, "replication_factor": 1}
    assert (await consoles[1].rest.ask("POST", "topics", made)).status == 201
    async with Admin(bootstrap_servers=cluster.cluster.bootstrap_servers) as admin:
        await admin.alter_group_offsets("readers", {TopicPartition("read", 0): OffsetAndMetadata(0)})

    async def is_known():
        found = {broker: await consoles[broker].rest.get(where) for broker in BROKERS}
        here = [broker for broker in BROKERS if found[broker]["is_here"]]
        return {one["coordinator"] for one in found.values()} == set(here) and here

    [coordinator] = await until(is_known, "all know the coordinator")
    for broker in BROKERS:
        async with consoles[broker].at("/inside/groups?group=readers") as page:
            if broker == coordinator:
                await expect(page.get_by_text("live", exact=True)).to_be_visible()
            else:
                refused = await consoles[broker].rest.ask("GET", "/api/v1/inside/groups/events?group=readers")
                assert (refused.status, refused.body["message"].split(":")[0]) == (
                    409,
                    f"Broker {coordinator} coordinates the group readers",
                )
                await expect(page.get_by_text(f"Broker {coordinator} coordinates readers")).to_be_visible()
                await page.get_by_role("link", name=f"Go to broker {coordinator}").click()
                await expect(page.get_by_role("heading", name=f"Broker {coordinator}")).to_be_visible()

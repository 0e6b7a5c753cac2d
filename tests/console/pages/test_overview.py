"""The overview in a browser."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.console_pages import LOOKS, accessibility_problems, overflow

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as running:
        yield running


async def test_an_empty_cluster_shows_what_to_try_and_then_what_was_made(console, broker, admin):
    async with console.at("/") as page:
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await expect(page.get_by_role("main").get_by_role("status")).to_contain_text("no topic yet")
        servers = "|".join(map(re.escape, [broker.bootstrap_servers, *broker.bootstrap_servers.split(",")]))
        command = re.compile(f"ottla topics create greetings --partitions 3 --bootstrap-server ({servers})$")
        await expect(page.get_by_text(command)).to_be_visible()
        assert await accessibility_problems(page) == []
        await admin.create_topic("orders", partitions=2)
        await expect(page.get_by_label("Changed recently")).to_contain_text("Topic orders created with 2 partitions")
        await expect(page.get_by_text(command)).to_be_hidden()
        brokers = "1 broker" if len(broker.brokers) == 1 else f"{len(broker.brokers)} brokers"
        await expect(page.get_by_role("main").get_by_role("status")).to_contain_text(f"all 2 partitions on {brokers}")


@pytest.mark.parametrize("look", LOOKS)
async def test_a_group_that_is_behind_is_listed(console, broker, admin, look):
    names = await admin.list_topics()
    if "orders" not in names:
        await admin.create_topic("orders", partitions=2)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send("orders", b"value", partition=0)
    await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
    async with console.at("/", **LOOKS[look]) as page:
        groups = page.get_by_label("Groups that are behind")
        await expect(groups).to_contain_text(re.compile(r"billing\d+ records? behind"))
        await expect(groups.get_by_role("link", name="billing")).to_have_attribute("href", "/groups/billing")
        await expect(page.get_by_label("Disk use")).to_contain_text("free")
        await expect(page.get_by_role("img", name="Records written, last hour")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_a_server_that_is_gone_leaves_what_was_known(console):
    async with console.at("/", allowed_error="503") as page:
        await expect(page.get_by_label("Disk use")).to_contain_text("Broker")
        await page.route("**/api/v1/overview", lambda route: route.fulfill(status=503, json={"message": "No broker."}))
        await expect(page.get_by_text("No broker. The page shows what was known before.")).to_be_visible()
        await expect(page.get_by_label("Disk use")).to_contain_text("Broker")
        await page.unroute("**/api/v1/overview")
        await expect(page.get_by_text("The page shows what was known before.")).to_be_hidden()

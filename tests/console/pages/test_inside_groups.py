"""The timeline of a group in the console of its coordinator."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.topic_partition import TopicPartition
from support.console import console_broker
from support.console_pages import LOOKS, ConsolePages, accessibility_problems, overflow
from support.own_console import own_console
from support.polling import until
from support.quick_groups import BROKER_SETTINGS, quick_consumer

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_broker(tmp_path_factory):
    settings = BROKER_SETTINGS | {"offsets.topic.num.partitions": "1"}
    async with console_broker(tmp_path_factory.mktemp("inside"), settings) as running:
        async with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            await admin.create_topic("t", 2)
            await admin.alter_group_offsets("ready", {TopicPartition("t", 0): OffsetAndMetadata(0)})
        groups = running.services.coordination.groups
        await until(lambda: not isinstance(groups.find("readers"), int), "the broker coordinates groups")
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inside(browser, own_broker):
    async with own_console(own_broker) as rest:
        yield ConsolePages(browser, rest)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_rebalance_appears_as_it_happens(inside, own_broker, look):
    async with inside.at("/inside/groups?group=readers", **LOOKS[look]) as page:
        await expect(page.get_by_text("live", exact=True)).to_be_visible()
        async with quick_consumer(own_broker.bootstrap_servers, "t", group_id="readers", client_id="reader-1"):
            await expect(page.locator(".inside-timeline")).to_contain_text("has its assignment")
            await expect(page.locator(".inside-timeline")).to_contain_text("reader-1")
        await expect(page.get_by_text("is no longer a member").first).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_who_was_there_before_has_not_joined(inside, own_broker):
    timeline = ".inside-timeline"
    async with quick_consumer(own_broker.bootstrap_servers, "t", group_id="readers", client_id="reader-2"):
        async with inside.at("/inside/groups?group=readers") as page:  # until it is a member
            await expect(page.locator(timeline)).to_contain_text("The group is Stable")
        async with inside.at("/inside/groups?group=readers") as page:
            line = page.locator(timeline).get_by_role("listitem").filter(has_text="reader-2")
            await expect(line).to_contain_text("is a member")
            await expect(page.get_by_text(re.compile(r"joins"))).to_have_count(0)


async def test_without_a_group(inside):
    async with inside.at("/inside/groups") as page:
        await expect(page.get_by_text("Choose a group")).to_be_visible()


async def test_the_palette_finds_the_page(inside):
    async with inside.at("/inside/groups") as page:
        await page.keyboard.press("Control+k")
        await page.keyboard.type("rebalances")
        await expect(page.get_by_role("option", name="Inside: rebalances")).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await expect(page).to_have_url(re.compile("/inside/groups$"))

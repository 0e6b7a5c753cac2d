"""The list of groups with thousands of them: all are counted and searched, only those in view are in the document."""

import asyncio

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.topic_partition import TopicPartition
from support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
GROUPS = 2000
AT_ONCE = 50
MOST_ROWS = 200


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def groups(broker):
    turn = asyncio.Semaphore(AT_ONCE)

    async def commit(admin, number):
        async with turn:
            offsets = {TopicPartition("t", 0): OffsetAndMetadata(0)}
            return not any((await admin.alter_group_offsets(f"group-{number:04}", offsets)).values())

    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("t", 1)
        await until(lambda: commit(admin, 0), "a group has an offset")
        assert all(await asyncio.gather(*(commit(admin, number) for number in range(1, GROUPS))))
        yield


async def test_all_are_counted_and_searched(console):
    async with console.at("/groups") as page:
        await expect(page.get_by_text("2,000 groups")).to_be_visible()
        await expect(page.get_by_role("row", name="group-0000")).to_contain_text("Empty")
        assert await page.locator("tbody tr").count() < MOST_ROWS
        await page.get_by_role("searchbox").fill("199")
        await expect(page.get_by_text("12 of 2,000 groups")).to_be_visible()
        await expect(page.get_by_role("row", name="group-1999")).to_contain_text("Empty")


async def test_the_last_is_reached_by_scrolling(console):
    async with console.at("/groups") as page:
        await expect(page.get_by_text("2,000 groups")).to_be_visible()
        await page.keyboard.press("End")
        await expect(page.get_by_role("row", name="group-1999")).to_be_visible()

"""The files of a partition in the console of a broker: segments, batches, indexes, and the search of an offset."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.producer.producer import Producer
from support.console import console_broker
from support.console_pages import LOOKS, ConsolePages, accessibility_problems, overflow
from support.own_console import own_console

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/inside/storage?topic=orders&partition=0"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_broker(tmp_path_factory):
    values = {"log.index.interval.bytes": "64", "log.segment.bytes": "8000"}
    async with console_broker(tmp_path_factory.mktemp("inside"), values) as running:
        servers = running.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", 1)
            for number in range(200):
                await producer.send("orders", f"value {number}".encode())
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inside(browser, own_broker):
    async with own_console(own_broker) as rest:
        yield ConsolePages(browser, rest)


@pytest.mark.parametrize("look", LOOKS)
async def test_segments_batches_and_the_search_in_every_look(inside, look):
    async with inside.at(f"{ORDERS}&segment=0&offset=40", **LOOKS[look]) as page:
        await expect(page.get_by_role("table", name="Segments")).to_contain_text("0" * 20)
        await expect(page.get_by_role("table", name="Batches")).to_be_visible()
        await expect(page.locator("table .inside-chosen").nth(1)).to_contain_text("40 – 40")
        await expect(page.get_by_text(re.compile("Step 1 of "))).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_a_partition_is_chosen_and_its_segment_opened(inside):
    async with inside.at("/inside/storage") as page:
        await expect(page.get_by_text("Choose a partition")).to_be_visible()
        await page.get_by_label("Topic").fill("orders")
        await page.get_by_role("button", name="Show").click()
        await expect(page).to_have_url(re.compile("topic=orders&partition=0"))
        await page.get_by_role("button", name="0" * 20).click()
        await expect(page).to_have_url(re.compile("segment=0"))
        await page.get_by_role("button", name="Offset index").click()
        await expect(page.get_by_role("table", name="Offset index")).to_be_visible()
        await page.get_by_role("button", name="Time index").click()
        await expect(page.get_by_role("table", name="Time index")).to_be_visible()
        await page.get_by_role("button", name="Aborted transactions").click()
        await expect(page.get_by_text("No transaction was aborted")).to_be_visible()
        await page.get_by_role("button", name="Batches").click()
        await page.get_by_role("button", name="Next").last.click()
        await expect(page).to_have_url(re.compile(r"position=\d+"))


async def test_the_steps_of_a_search_by_keyboard(inside):
    async with inside.at(f"{ORDERS}&offset=120") as page:
        steps = page.get_by_role("group", name=re.compile("Steps of the search"))
        await steps.focus()
        await page.keyboard.press("ArrowRight")
        await expect(page).to_have_url(re.compile("step=2"))
        await page.keyboard.press("End")
        await expect(page.get_by_text("this is it")).to_be_visible()
        await page.keyboard.press("ArrowLeft")
        await expect(page.get_by_text("this is it")).to_be_hidden()
        await page.reload()
        await expect(page.get_by_text(re.compile(r"Step [2-9]\d* of"))).to_be_visible()


async def test_a_search_plays_by_itself_but_not_with_reduced_motion(inside):
    async with inside.at(f"{ORDERS}&offset=120") as page:
        await page.get_by_role("button", name="Play").click()
        await expect(page.get_by_text("this is it")).to_be_visible()
    async with inside.at(f"{ORDERS}&offset=120", reduced_motion="reduce") as page:
        await expect(page.get_by_role("button", name="Next")).to_be_visible()
        await expect(page.get_by_role("button", name="Play")).to_be_hidden()


async def test_what_cannot_be_shown_is_said(inside, own_broker):
    async with inside.at(f"{ORDERS}&offset=5000", allowed_error="400") as page:
        await expect(page.get_by_role("alert")).to_contain_text("The offset must be from 0 to 199")
    async with inside.at("/inside/storage?topic=none&partition=0", allowed_error="404") as page:
        await expect(page.get_by_role("alert")).to_contain_text("there is no partition none-0")
    partitions = own_broker.services.replicas.partitions
    here = partitions.pop(("orders", 0))
    try:
        async with inside.at(ORDERS) as page:
            await expect(page.get_by_text("does not have orders-0")).to_be_visible()
    finally:
        partitions[("orders", 0)] = here

"""The overview, and the pages of brokers and transactions, from the console of each of three brokers.

One broker is stopped at the end: the pages name what it leaves behind.
"""

import itertools
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from ottla import testing
from support.console_pages import PHONE, ConsolePages, cramped, overflow
from support.own_console import own_console

pytestmark = pytest.mark.asyncio(loop_scope="session")
IDS = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster():
    settings_of = {number: {"ottla.console.listener": "127.0.0.1:0"} for number in IDS}
    with testing.cluster(3, settings_of=settings_of) as running:
        running.create_topic("orders", partitions=6, replication_factor=3)
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def pages_of(cluster, browser):
    def of(broker_id):
        return own_console(cluster.brokers[broker_id].broker), lambda rest: ConsolePages(browser, rest)

    return of


@pytest.mark.parametrize("broker_id", IDS)
async def test_each_console_shows_the_whole_cluster_and_its_own_broker(pages_of, broker_id):
    console, pages = pages_of(broker_id)
    async with console as rest:
        async with pages(rest).at("/") as page:
            status = page.get_by_role("main").get_by_role("status")
            await expect(status.filter(visible=True)).to_contain_text("partitions on 3 brokers are in sync")
            await expect(page.get_by_label("Requests of this broker", exact=True)).to_be_visible()
            await expect(page.get_by_text("Produced: ")).to_be_visible()
            assert await overflow(page) <= 0
        async with pages(rest).at("/brokers") as page:
            await expect(page.get_by_role("row", name=re.compile(r"^Broker \d"))).to_have_count(3)
        async with pages(rest).at(f"/brokers/{broker_id}/statistics", **PHONE) as page:
            await expect(page.get_by_role("rowheader", name="Metadata", exact=True)).to_be_visible()
            assert await overflow(page) <= 0
            assert await cramped(page) == []
        other = broker_id % 3 + 1
        async with pages(rest).at(f"/brokers/{other}/statistics") as page:
            await expect(page.get_by_text(f"This is the console of broker {broker_id}.")).to_be_visible()
        async with pages(rest).at("/transactions") as page:
            await expect(page.get_by_text(re.compile(r"None in \d+ partitions"))).to_be_visible()


async def test_the_charts_of_the_broker_come_with_the_first_answer(pages_of):
    console, pages = pages_of(1)
    answers = itertools.count()

    async def only_the_first(route):
        await (route.fulfill(status=503, json={"message": "No."}) if next(answers) else route.continue_())

    async with console as rest, pages(rest).at("/api-docs", allowed_error="503") as page:
        await page.route("**/api/v1/overview", only_the_first)
        await page.get_by_role("link", name="Overview", exact=True).click()
        await expect(page.get_by_role("heading", name="Records written")).to_be_visible()
        await expect(page.get_by_text("The page shows what was known before.")).to_be_visible()
        await expect(page.get_by_label("Requests of this broker", exact=True)).to_be_visible()
        await expect(page.get_by_text("are in the console of that broker")).to_have_count(0)


async def test_a_broker_that_has_stopped_is_named(cluster, pages_of):
    cluster.stop_broker(3)
    console, pages = pages_of(1)
    async with console as rest:
        async with pages(rest).at("/") as page:
            status = page.get_by_role("main").get_by_role("status").filter(visible=True)
            await expect(status).to_contain_text("6 partitions of 6 have a replica that is not in sync")
            wanting = page.get_by_label("Partitions to look at")
            await expect(wanting.get_by_text("in sync: 2 of 3")).to_have_count(6)
        async with pages(rest).at("/brokers") as page:
            await expect(page.get_by_role("row", name=re.compile("Broker 3"))).to_contain_text("not alive")

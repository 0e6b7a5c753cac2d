"""The pages of `ottla console`, a process, for a cluster that is not ours: librdkafka's mock cluster with few APIs."""

import re

import aiohttp
import pytest
import pytest_asyncio
from confluent_kafka import Producer
from playwright.async_api import expect

from support.console_pages import ConsolePages, accessibility_problems, overflow
from support.deadlines import DEADLINE_S
from support.mock_cluster import MockCluster
from support.rest import Rest
from support.running_console import RunningConsole

pytestmark = pytest.mark.asyncio(loop_scope="session")
RECORDS = 30
REFUSED = "400"
"""The browser logs an answer with this status, which says what the cluster does not serve."""


@pytest.fixture(scope="module")
def cluster():
    mock = MockCluster()
    producer = Producer({"bootstrap.servers": mock.bootstrap})
    for number in range(RECORDS):
        producer.produce("orders", b'{"number": %d}' % number, b"key-%d" % number, partition=number % 4)
    assert producer.flush(DEADLINE_S) == 0
    return mock


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pages(browser, cluster):
    with RunningConsole("console", "--listen", "127.0.0.1:0", "--bootstrap-server", cluster.bootstrap) as running:
        url = running.value("url").rstrip("/")
        async with aiohttp.ClientSession() as http:
            session = await Rest(http, url, "").get("/api/v1/session")
            yield ConsolePages(browser, Rest(http, url, session["cluster_id"]))


async def looks_good(page):
    assert await overflow(page) <= 0
    assert await accessibility_problems(page) == []


async def test_overview(pages):
    async with pages.at("/") as page:
        status = page.get_by_role("main").get_by_role("status").filter(visible=True)
        await expect(status).to_contain_text("This cluster does not serve DESCRIBE_LOG_DIRS.")
        await expect(status).not_to_have_attribute("data-kind", "bad")
        controller = page.locator("dl.facts > div").filter(has_text="Controller")
        await expect(controller).to_have_text("Controllerunknown")
        await expect(page.get_by_label("Requests of this broker", exact=True)).to_be_hidden()
        await expect(page.get_by_text("are in the console of that broker, if it is one of Ottla")).to_be_visible()
        await expect(page.get_by_role("img", name="Records written, last hour")).to_be_visible()
        await looks_good(page)


async def test_brokers_and_transactions(pages):
    async with pages.at("/brokers") as page:
        await expect(page.get_by_role("row", name=re.compile(r"^Broker \d"))).to_have_count(3)
    async with pages.at("/transactions") as page:
        await expect(page.get_by_text("No transactional id is in use")).to_be_visible()
    async with pages.at("/brokers/1/apis") as page:
        await expect(page.get_by_role("row", name=re.compile("ApiVersions"))).to_contain_text("0 to 2")
        await looks_good(page)
    async with pages.at("/brokers/1/partitions") as page:
        await expect(page.get_by_role("row", name=re.compile("orders-0"))).to_be_visible()


async def test_messages_are_searched_and_opened(pages):
    async with pages.at("/topics/orders") as page:
        rows = page.get_by_role("table", name="Records").locator("tbody tr")
        await expect(rows).to_have_count(RECORDS)
        await page.get_by_text("Filter", exact=True).click()
        await page.get_by_label("Value contains").fill('"number": 17')
        await page.get_by_role("button", name="Show", exact=True).click()
        await expect(rows).to_have_count(1)
        await expect(rows.first).to_contain_text("key-17")
        await rows.first.click()
        await expect(page).to_have_url(re.compile("record="))
        await looks_good(page)


async def test_partitions_of_a_topic_without_sizes(pages):
    async with pages.at("/topics/orders/partitions") as page:
        await expect(page.get_by_role("table", name="Partitions").locator("tbody tr")).to_have_count(4)
        await expect(page.get_by_text("This cluster does not serve DESCRIBE_LOG_DIRS.")).to_be_visible()
        await expect(page.get_by_role("heading", name="Leaders by broker")).to_be_visible()
        await expect(page.get_by_role("heading", name="Size by broker")).to_be_hidden()


async def test_lists_say_what_the_cluster_does_not_serve(pages):
    for path in ("/groups", "/topics/orders/consumers"):
        async with pages.at(path) as page:
            await expect(page.get_by_text("This cluster does not serve LIST_GROUPS.")).to_be_visible()
            await looks_good(page)


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/topics/orders/configuration", "DESCRIBE_CONFIGS"),
        ("/brokers/1", "DESCRIBE_CONFIGS"),
        ("/groups/readers", "DESCRIBE_GROUPS"),
    ],
)
async def test_a_page_that_the_cluster_cannot_fill(pages, path, api):
    async with pages.at(path, allowed_error=REFUSED) as page:
        await expect(page.get_by_role("alert")).to_have_text(f"This cluster does not serve {api}.")
        await expect(page.get_by_role("button", name="Try again")).to_be_hidden()


@pytest.mark.parametrize("view", ["registry", "storage", "replication", "groups"])
async def test_the_inside_is_only_that_of_our_brokers(pages, view):
    async with pages.at(f"/inside/{view}") as page:
        await expect(page.get_by_text("Only an Ottla broker shows this")).to_be_visible()


@pytest.mark.parametrize(
    ("tab", "title"),
    [
        ("", "This cluster has no API for SCRAM users"),
        ("/acls", "This cluster has no API for ACLs"),
        ("/quotas", "This cluster has no API for quotas"),
        ("/tokens", "This cluster has no API for delegation tokens"),
    ],
)
async def test_a_tab_of_security_says_what_the_cluster_does_not_serve(pages, tab, title):
    async with pages.at(f"/security{tab}") as page:
        await expect(page.get_by_text(title)).to_be_visible()
        await looks_good(page)

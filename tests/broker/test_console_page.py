"""The page in a real browser, against a real broker."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from broker.broker import Broker
from broker.first_commands import first_commands
from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.producer.producer import Producer
from ottla.cluster.ports import free_ports
from support.authorization import allow, put_acls
from support.broker import BrokerProcess, running_broker
from support.browser import chromium, opened
from support.console import console_broker, password_file
from support.tls_listening import tls_settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

POLL = "document.dispatchEvent(new Event('visibilitychange'))"  # not in two seconds
OVERFLOW = "[document.documentElement.scrollWidth, window.innerWidth]"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 844}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of this module: each opens pages of its own."""
    async with chromium() as running:
        yield running


@asynccontextmanager
async def console(tmp_path: Path) -> AsyncIterator[tuple[Broker, str]]:
    """A broker, and the URL of its console."""
    async with running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker:
        assert broker.console is not None
        yield broker, f"http://127.0.0.1:{broker.console.port}/"


@asynccontextmanager
async def console_page(browser: Browser, tmp_path: Path) -> AsyncIterator[tuple[Broker, Page]]:
    """A broker, and its console in the browser."""
    async with console(tmp_path) as (broker, url), opened(browser, url) as page:
        await expect_state(page, "Ready")
        yield broker, page


def names(page: Page) -> Locator:
    """The names of the topics that are shown."""
    return page.locator("#topics > tbody:visible .name")


def row(page: Page, name: str) -> Locator:
    """The visible cells of the row of a topic or a group."""
    body = page.locator(".opening > tbody").filter(has=page.get_by_text(name, exact=True))
    return body.locator(":scope > tr:first-child > *:visible")


def details(page: Page) -> Locator:
    """The rows of the partitions, or of the offsets, of what is open."""
    return page.locator(".partitions tbody tr:visible")


async def toggle(page: Page, name: str) -> None:
    """Open or close a topic or a group."""
    await page.get_by_role("button", name=name).click()


async def expect_state(page: Page, state: str) -> None:
    await expect(page.locator("#state")).to_have_text(state)


async def expect_row(page: Page, name: str, cells: list[str | re.Pattern[str]]) -> None:
    await expect(row(page, name)).to_have_text(cells, use_inner_text=True)


async def expect_details(page: Page, rows: list[list[str | re.Pattern[str]]]) -> None:
    await expect(details(page)).to_have_count(len(rows))
    for number, cells in enumerate(rows):
        await expect(details(page).nth(number).locator("th, td")).to_have_text(cells)


async def test_page_shows_the_first_topic_and_its_messages(browser: Browser, tmp_path: Path) -> None:
    async with console_page(browser, tmp_path) as (broker, page):
        servers = broker.bootstrap_servers
        await expect(page.locator("#commands li")).to_have_text(first_commands(servers))
        await expect(page.locator("#topics")).to_be_hidden()
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", 2)
            await expect(names(page)).to_have_text(["orders"])
            await expect(page.locator("#empty")).to_be_hidden()
            rate = re.compile("/s$|^–$")
            await expect_row(page, "orders", ["orders", "2", "0", rate, rate, "0 B"])

            await toggle(page, "orders")
            button = page.locator("#topics button")
            await expect(button).to_have_attribute("aria-expanded", "true")
            await expect(page.locator(f"[id='{await button.get_attribute('aria-controls')}']")).to_be_visible()
            await expect_details(page, [[number, "0", "0", "0", "0 B", "0", "0", "0"] for number in "01"])

            # What is on the page stays the same nodes: nothing flickers, nothing closes.
            await page.locator("#topics > tbody").evaluate("(body) => { body.dataset.mark = 'kept'; }")
            for number in range(1500):
                producer.send_nowait("orders", partition=1, value=b"%d" % number)
            await producer.flush()
            await expect_details(
                page,
                [
                    ["0", "0", "0", "0", "0 B", "0", "0", "0"],
                    ["1", "0", "1,500", "1,500", re.compile("KiB$"), "0", "0", "0"],
                ],
            )
            await expect(row(page, "orders").nth(2)).to_have_text("1,500")
            await expect(page.locator("#topics > tbody")).to_have_attribute("data-mark", "kept")
            await expect(page.locator("#rates .value").first).not_to_have_text("–")

            await toggle(page, "orders")
            await expect(details(page)).to_have_count(0)

            await admin.delete_topic("orders")
            await expect(page.locator("#empty")).to_be_visible()
            await expect(names(page)).to_have_count(0)


async def test_offsets_are_not_called_messages(browser: Browser, tmp_path: Path) -> None:
    """The control record of a transaction takes an offset: two records, three offsets."""
    async with console_page(browser, tmp_path) as (broker, page):
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers, transactional_id="t") as producer, producer.transaction():
            for value in (b"one", b"two"):
                await producer.send("orders", partition=0, value=value)
        await expect(row(page, "orders").nth(2)).to_have_text("3")
        header = page.locator("#topics thead th").nth(2)
        await expect(header).to_have_text("Offsets")
        await expect(header).to_have_attribute("title", re.compile("control records"))


async def test_page_fits_a_desktop_and_a_phone(browser: Browser, tmp_path: Path) -> None:
    async with (
        console(tmp_path) as (broker, url),
        opened(browser, url, **PHONE) as phone,
        opened(browser, url, **DESKTOP) as desktop,
    ):
        await expect_state(phone, "Ready")
        assert await phone.evaluate(OVERFLOW) == [390, 390]
        topics = ["a-topic-with-quite-a-name." + "x" * 120, "orders"]
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name in topics:
                await admin.create_topic(name, 3)
        for page, width, cells in ((phone, 390, 3), (desktop, 1280, 6)):
            await expect(names(page)).to_have_text(topics)
            for name in topics:
                await toggle(page, name)
            await expect(details(page)).to_have_count(6)
            await expect(row(page, "orders")).to_have_count(cells)
            assert await page.evaluate(OVERFLOW) == [width, width]


async def test_page_follows_the_light_or_dark_mode_of_the_device(browser: Browser, tmp_path: Path) -> None:
    async with console_page(browser, tmp_path) as (_, page):
        backgrounds = set()
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            backgrounds.add(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        assert len(backgrounds) == 2


async def test_groups_expand_to_show_their_offsets(browser: Browser, tmp_path: Path) -> None:
    async with console_page(browser, tmp_path) as (broker, page):
        servers = broker.bootstrap_servers
        await expect(page.locator("#groups-section")).to_be_hidden()
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", 2)
            for _ in range(5):
                await producer.send("orders", partition=1, value=b"v")
            options = {"group_id": "billing", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
            async with Consumer("orders", bootstrap_servers=servers, **options) as consumer:
                await consumer.getmany(max_records=3)
                await consumer.commit()
                await expect_row(page, "billing", ["billing", "Stable", "1", "2", "2"])
                await toggle(page, "billing")
                await expect_details(page, [["orders-0", "0", "0", "0"], ["orders-1", "3", "5", "2"]])
            await expect(row(page, "billing").nth(1)).to_have_text("Empty")
            await page.set_viewport_size({"width": 390, "height": 844})
            await expect_row(page, "billing", ["billing Empty, 0 members", "2"])
            await producer.send("orders", partition=0, value=b"v")
            await expect_details(page, [["orders-0", "0", "1", "1"], ["orders-1", "3", "5", "2"]])
            await admin.delete_groups(["billing"])
            await expect(page.locator("#groups-section")).to_be_hidden()


async def test_topics_can_be_filtered_by_name(browser: Browser, tmp_path: Path) -> None:
    async with console_page(browser, tmp_path) as (broker, page):
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for number in range(8):
                await admin.create_topic(f"topic-{number}", 1)
        await expect(names(page)).to_have_count(8)
        field = page.get_by_role("searchbox", name="Filter topics by name")
        await field.fill("IC-3")
        await expect(names(page)).to_have_text(["topic-3"])
        await field.fill("nothing")
        await expect(names(page)).to_have_count(0)
        await expect(page.locator("#no-match")).to_be_visible()
        await field.fill("")
        await expect(names(page)).to_have_count(8)


async def test_page_reports_when_the_broker_stops_and_resumes_answering(browser: Browser, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/"
    with BrokerProcess(tmp_path / "data", {"ottla.console.listener": f"127.0.0.1:{port}"}) as process:
        async with Admin(bootstrap_servers=process.bootstrap) as admin:
            await admin.create_topic("orders", 1)
        async with opened(browser, url, allowed_error="net::ERR_") as page:
            await expect_state(page, "Ready")
            process.kill()
            await expect_state(page, "No answer")
            notice = page.get_by_role("alert")
            await expect(notice).to_have_text(re.compile("^The broker does not answer. Last answer at "))
            await expect(names(page)).to_have_text(["orders"])  # what was known stays to be read
            process.start()
            await expect_state(page, "Ready")
            await expect(notice).to_be_hidden()
            await expect(names(page)).to_have_text(["orders"])


async def test_a_user_logs_in_over_tls_and_the_page_says_when_a_right_is_gone(browser: Browser, tmp_path: Path) -> None:
    stores = {f"ottla.console.{name}": value for name, value in tls_settings(tmp_path).items()}
    values = stores | {
        "ottla.console.listener": "https://127.0.0.1:0",
        "ottla.console.authentication": "password-file",
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        **password_file(tmp_path, alice="alice-secret"),
    }
    login = {"username": "alice", "password": "alice-secret"}
    async with console_broker(tmp_path, values) as broker:
        assert broker.console is not None
        put_acls(broker, [allow("User:alice", "Describe", "Cluster")])
        url = broker.console.url
        async with opened(browser, url, http_credentials=login, ignore_https_errors=True, allowed_error="403") as page:
            await expect_state(page, "Ready")
            put_acls(broker, [])
            await page.evaluate(POLL)
            await expect_state(page, "Refused")
            await expect(page.locator("#notice")).to_contain_text("User:alice may not describe the cluster.")
            put_acls(broker, [allow("User:alice", "Describe", "Cluster")])
            await page.evaluate(POLL)
            await expect_state(page, "Ready")

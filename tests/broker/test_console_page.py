"""The pages of a broker's own console, in a real browser: over TLS with a login, and while the broker is down."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from broker.first_commands import first_commands
from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from ottla.cluster.ports import free_ports
from support.authorization import allow, put_acls
from support.broker import BrokerProcess
from support.browser import chromium, opened
from support.certificates import server_certificate
from support.console import ask, basic, console_broker, password_file
from support.tls_listening import tls_settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

POLL = "document.dispatchEvent(new Event('visibilitychange'))"  # not in some seconds
NEEDED = [allow("User:alice", "Describe", "Cluster"), allow("User:alice", "Describe", "Topic", "*")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of this module: each opens pages of its own."""
    async with chromium(server_certificate()) as running:
        yield running


async def expect_topics(page: Page, *names: str) -> None:
    for name in names:
        await expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()


async def test_the_pages_show_the_cluster_and_say_which_broker_serves_them(browser: Browser, tmp_path: Path) -> None:
    async with console_broker(tmp_path, {"broker.id": "7"}) as broker:
        assert broker.console is not None
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("orders", 2)
        async with opened(browser, broker.console.url) as page:
            await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            await expect(page.locator("#session")).to_have_text("broker 7")
            await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics").click()
            await expect_topics(page, "orders")


async def test_a_read_only_console_says_so(browser: Browser, tmp_path: Path) -> None:
    async with console_broker(tmp_path, {"ottla.console.mode": "read-only"}) as broker:
        assert broker.console is not None
        async with opened(browser, broker.console.url) as page:
            await expect(page.locator("#session")).to_have_text("broker 0 · read-only")


async def test_the_page_stays_while_the_broker_is_down_and_goes_on(browser: Browser, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with BrokerProcess(tmp_path / "data", {"ottla.console.listener": f"127.0.0.1:{port}"}) as process:
        async with opened(browser, f"http://127.0.0.1:{port}/", allowed_error="net::ERR_") as page:
            health = page.get_by_text(re.compile("^The cluster is healthy"))
            await expect(health).to_be_visible()
            process.kill()
            await page.evaluate(POLL)
            lost = page.get_by_text("The page shows what was known before.")
            await expect(lost).to_be_visible()
            await expect(health).to_be_visible()
            process.start()
            await page.evaluate(POLL)
            await expect(lost).to_be_hidden()
            await expect(health).to_be_visible()


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
        put_acls(broker, NEEDED)
        url = broker.console.url
        async with opened(browser, url, http_credentials=login, allowed_error="403") as page:
            await expect(page.locator("#session")).to_have_text("broker 0 · User:alice · read-only")
            await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            put_acls(broker, [])
            await page.evaluate(POLL)
            refused = page.get_by_text("User:alice may not describe the cluster.")
            await expect(refused).to_be_visible()
            put_acls(broker, NEEDED)
            await page.evaluate(POLL)
            await expect(refused).to_be_hidden()


async def test_the_commands_to_try_are_those_of_the_broker(tmp_path: Path) -> None:
    values = {"ottla.console.authentication": "password-file"} | password_file(tmp_path, alice="alice-secret")
    async with console_broker(tmp_path, values) as broker:
        found = (await ask(broker, "/api/cluster", auth=basic("alice", "alice-secret"))).text
        assert all(one.replace('"', '\\"') in found for one in first_commands(broker.bootstrap_servers))

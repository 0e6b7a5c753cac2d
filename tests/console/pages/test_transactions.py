"""The pages of transactions in a browser."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.producer.producer import Producer
from support.console_pages import LOOKS, accessibility_problems, overflow
from support.hanging import write_hanging

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def broker_settings():
    return {"transaction.partition.verification.enable": "false"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def producer(broker):
    """A transaction that stays open."""
    servers = broker.bootstrap_servers
    async with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(transactional_id="billing", transaction_timeout_ms=900_000, bootstrap_servers=servers) as running,
    ):
        await admin.create_topic("orders", partitions=2)
        await running.begin_transaction()
        await running.send("orders", b"first", partition=0)
        await running.flush()
        yield running
        await running.abort_transaction()


@pytest.mark.parametrize("look", LOOKS)
async def test_an_open_transaction_is_listed_and_described(console, producer, look):
    async with console.at("/transactions", **LOOKS[look]) as page:
        row = page.get_by_role("row", name=re.compile("billing"))
        await expect(row).to_contain_text("Ongoing")
        await expect(page.get_by_text(re.compile(r"None in \d+ partitions"))).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await page.get_by_label("State").select_option("Ongoing")
        await expect(page).to_have_url(re.compile("state=Ongoing"))
        await row.get_by_role("link", name="billing").click()
        await expect(page.get_by_role("heading", name="billing")).to_be_visible()
        await expect(page.get_by_role("row", name=re.compile("orders-0"))).to_contain_text("1")
        await expect(page.get_by_text("the coordinator aborts it 15 min after its start")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_an_unknown_transactional_id_is_said(console):
    async with console.at("/transactions/nobody", allowed_error="404") as page:
        await expect(page.get_by_role("alert")).to_contain_text("nobody")


async def test_a_hanging_transaction_is_explained_and_aborted(console, broker, producer):
    await write_hanging(broker.bootstrap_servers, "orders", 1)
    async with console.at("/transactions") as page:
        await page.get_by_role("button", name="Abort…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("appends an abort marker for producer 4711 (epoch 3)")
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Abort the transaction").click()
        await expect(page.get_by_text("The transaction is aborted in")).to_be_visible()
        await expect(page.get_by_text(re.compile(r"None in \d+ partitions"))).to_be_visible()

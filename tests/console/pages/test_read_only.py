"""Every page of a console that is read-only: it is shown whole, and offers nothing that would be refused."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.console import console_broker
from support.console_pages import ConsolePages
from support.hanging import HANGING_ID, write_hanging
from support.own_console import own_console
from support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
SETTINGS = {
    "ottla.console.mode": "read-only",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a secret of this test",
    "transaction.partition.verification.enable": "false",  # for a hanging transaction
}
PAGES = {
    "/": "Records written",
    "/topics": "orders",
    "/topics/orders": "first",
    "/topics/orders?record=0:0": "Partition 0, offset 0",
    "/topics/orders/produce": "One record",
    "/topics/orders/partitions": "Leaders by broker",
    "/topics/orders/consumers": "readers",
    "/topics/orders/configuration": "cleanup.policy",
    "/topics/orders/danger": "Delete this topic",
    "/groups": "readers",
    "/groups/readers": "Members",
    "/groups/readers/lag": "Lag of the last half hour",
    "/groups/readers/timeline": "Timeline",
    "/groups/readers/reset": "Reset",
    "/brokers": "Broker 0",
    "/brokers/0": "Configuration",
    "/brokers/0/log-levels": "Log levels",
    "/transactions": f"{HANGING_ID} (epoch",
    "/transactions/billing": "Since",
    "/security": "Users",
    "/security/acls": "ACLs",
    "/security/quotas": "Quotas",
    "/security/tokens": "Delegation tokens",
    "/inside/replication?topic=orders&partition=0": "Replicas",
}
"""Paths, and what the whole page has."""
CHANGES = re.compile(
    r"^(Create|Delete|Edit|Add|Move|Elect|Reset|Produce|Abort|Set|Write|Apply|Change|Renew|Expire|Cancel|Follow|Remove)\b"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pages(browser, tmp_path_factory):
    async with (
        console_broker(tmp_path_factory.mktemp("read-only"), SETTINGS) as broker,
        own_console(broker) as rest,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        await admin.create_topic("orders", 1)
        await admin.create_topic("stuck", 1)
        await write_hanging(broker.bootstrap_servers, "stuck", 0)
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send("orders", b"first")

        async def is_committed():
            done = await admin.alter_group_offsets("readers", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
            return not any(done.values())

        await until(is_committed, "the group has an offset")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="billing") as producer:
            await producer.begin_transaction()
            await producer.send("orders", b"second")
            await producer.flush()
            yield ConsolePages(browser, rest)


@pytest.mark.parametrize("path", PAGES)
async def test_nothing_that_would_be_refused_is_offered(pages, path):
    async with pages.at(path) as page:
        await expect(page.get_by_text(PAGES[path]).filter(visible=True).first).to_be_visible()
        await expect(page.locator("#session")).to_contain_text("read-only")
        buttons = page.get_by_role("main").get_by_role("button", name=CHANGES, disabled=False)
        links = page.get_by_role("main").get_by_role("link", name=CHANGES)
        texts = [*await buttons.all_text_contents(), *await links.all_text_contents()]
        tabs = {"Reset offsets", "Produce"}
        assert [one for one in texts if one not in tabs] == []


@pytest.mark.parametrize("path", ["/brokers", "/brokers/0", "/brokers/0/log-levels", "/transactions"])
async def test_what_one_may_not_do_is_not_shown(pages, path):
    async with pages.at(path) as page:
        await expect(page.get_by_text(PAGES[path]).filter(visible=True).first).to_be_visible()
        await page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
        main = page.get_by_role("main")
        await expect(main.get_by_role("button", disabled=True)).to_have_count(0)
        await expect(main.locator("select:disabled")).to_have_count(0)
        await expect(main.get_by_role("button", name=CHANGES)).to_have_count(0)


async def test_the_palette_offers_no_action(pages):
    async with pages.at("/") as page:
        await page.keyboard.press("Control+k")
        await page.keyboard.type("orders")
        await expect(page.get_by_role("option", name=re.compile("^orders"))).to_be_visible()
        await page.get_by_role("combobox").fill("add")
        await expect(page.get_by_role("option", name=re.compile("^orders"))).to_be_hidden()
        await expect(page.get_by_role("option", name=CHANGES)).to_have_count(0)


async def test_a_request_is_refused_all_the_same(pages):
    answer = await pages.rest.ask("POST", "/api/v1/delegation-tokens", {})
    assert answer.status == 403

"""Replication in the consoles of two brokers: offsets that move, and the way of a record."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.producer.producer import Producer
from support.console_pages import LOOKS, ConsolePages, accessibility_problems, overflow
from support.own_console import own_console
from support.pair import pair

pytestmark = pytest.mark.asyncio(loop_scope="session")

T0 = "/inside/replication?topic=t&partition=0"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def brokers(tmp_path_factory):
    async with pair(tmp_path_factory.mktemp("inside"), ottla_console_listener="127.0.0.1:0") as both:
        yield both


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def leader(browser, brokers):
    async with own_console(brokers[0]) as rest:
        yield ConsolePages(browser, rest)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_record_is_followed_in_every_look(leader, look):
    async with leader.at(T0, **LOOKS[look]) as page:
        await page.get_by_label("Value").fill("followed")
        await page.get_by_role("button", name="Write and follow").click()
        steps = page.locator(".inside-way li")
        await expect(steps).to_have_count(6)
        await expect(steps.nth(3)).to_contain_text("Broker 1 has it")
        await expect(steps.nth(4)).to_contain_text("it is committed")
        await expect(page.get_by_role("link", name="See it in the file")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_offsets_move_while_records_arrive(leader, brokers):
    async with leader.at(T0) as page:
        table = page.get_by_role("table", name="Replicas and their offsets")
        await expect(table.get_by_role("row")).to_have_count(3)
        async with Producer(bootstrap_servers=brokers[0].bootstrap_servers) as producer:
            for _ in range(5):
                written = await producer.send("t", b"v", partition=0)
        end = written.offset + 1
        await expect(table.get_by_role("cell", name=str(end), exact=True)).to_have_count(2)
        await expect(page.get_by_role("img", name=re.compile(f"High watermark {end},"))).to_be_visible()


async def test_the_follower_names_the_leader(browser, brokers):
    async with own_console(brokers[1]) as rest, ConsolePages(browser, rest).at(T0) as page:
        await expect(page.get_by_text("Broker 0 leads the partition")).to_be_visible()
        await expect(page.get_by_text("Only the console of the partition's leader can follow")).to_be_visible()


async def test_without_a_partition_and_with_one_that_does_not_exist(leader):
    async with leader.at("/inside/replication") as page:
        await expect(page.get_by_text("Choose a partition")).to_be_visible()
    async with leader.at("/inside/replication?topic=none", allowed_error="404") as page:
        await expect(page.get_by_role("alert")).to_contain_text("there is no partition none-0")

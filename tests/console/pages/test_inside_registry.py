"""The registry in the console of a broker: the tree, a node in detail, and changes as they happen."""

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from support.console import console_broker
from support.console_pages import LOOKS, ConsolePages, accessibility_problems, overflow
from support.deadlines import DEADLINE_S
from support.own_console import own_console

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def own_broker(tmp_path_factory):
    async with console_broker(tmp_path_factory.mktemp("inside"), {"broker.id": "3"}) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def inside(browser, own_broker):
    async with own_console(own_broker) as rest:
        yield ConsolePages(browser, rest)


@pytest.mark.parametrize("look", LOOKS)
async def test_the_way_to_a_node_and_what_is_in_it(inside, look):
    async with inside.at("/inside/registry?path=/brokers/ids/3", **LOOKS[look]) as page:
        await expect(page.get_by_role("heading", name="/brokers/ids/3")).to_be_visible()
        tree = page.get_by_role("navigation", name="Registry tree")
        await expect(tree.locator("a[aria-current]")).to_have_text(re.compile("^3"))
        await expect(page.get_by_text("A live broker with its listeners")).to_be_visible()
        await expect(page.get_by_role("region", name="Content")).to_contain_text('"endpoints"')
        await expect(page.get_by_text("broker 3, session 0x")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_a_node_that_is_there_from_the_beginning_has_no_time(inside):
    async with inside.at("/inside/registry") as page:
        for name in ("Created", "Changed"):
            fact = page.locator("dl.facts > div").filter(has=page.get_by_text(name, exact=True))
            await expect(fact).to_have_text(re.compile(f"^{name}–0x"))
        await expect(page.get_by_text("1970")).to_have_count(0)


async def test_the_chosen_node_is_in_the_address_and_links_are_reached_by_keyboard(inside):
    async with inside.at("/inside") as page:
        tree = page.get_by_role("navigation", name="Registry tree")
        await tree.get_by_role("link", name="controller ephemeral").focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"/inside\?path=%2Fcontroller$"))
        await expect(page.get_by_text("The active controller, ephemeral")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("heading", name="/", exact=True)).to_be_visible()


async def test_a_page_that_is_left_while_it_asks_logs_no_error(inside):
    async with inside.at("/inside/registry") as page:
        tree = page.get_by_role("navigation", name="Registry tree")
        await expect(tree.get_by_role("link", name="controller ephemeral")).to_be_visible()
        asked = asyncio.Event()
        await page.route("**/api/v1/inside/registry?*", lambda _: asked.set())  # and never answered
        await tree.get_by_role("link", name="controller ephemeral").click()
        async with asyncio.timeout(DEADLINE_S):
            await asked.wait()
        await page.get_by_role("link", name="Topics", exact=True).click()
        await expect(page.get_by_role("heading", name="Topics", exact=True)).to_be_visible()


async def test_changes_appear_at_once(inside, own_broker):
    registry = own_broker.services.registry_access.registry
    async with inside.at("/inside/registry?path=/config/topics", allowed_error="404") as page:
        await expect(page.get_by_text("Has a child for each entity of this kind")).to_be_visible()
        await registry.create("/config/topics/appears", b'{"version":1,"config":{"cleanup.policy":"compact"}}')
        tree = page.get_by_role("navigation", name="Registry tree")
        await tree.get_by_role("link", name="appears").click()
        await expect(page.get_by_role("region", name="Content")).to_contain_text("compact")
        await registry.set("/config/topics/appears", b'{"version":1,"config":{"cleanup.policy":"delete"}}')
        await expect(page.get_by_role("region", name="Content")).to_contain_text("delete")
        await expect(page.get_by_role("link", name="/config/topics/appears")).to_be_visible()
        await registry.delete("/config/topics/appears")
        await expect(page.get_by_text("There is no node /config/topics/appears")).to_be_visible()


async def test_many_children_are_filtered(inside, own_broker):
    registry = own_broker.services.registry_access.registry
    await registry.create("/config/clients/x")
    for number in range(200):
        await registry.create(f"/config/clients/client-{number:03}")
    async with inside.at("/inside/registry?path=/config/clients") as page:
        await expect(page.get_by_text("and 1 more: use the filter")).to_be_visible()
        await page.get_by_role("searchbox").fill("client-199")
        await expect(page.get_by_text("1 child with this text in the name")).to_be_visible()
        await expect(page).to_have_url(re.compile("contains=client-199"))
        await expect(page.get_by_role("searchbox")).to_be_focused()


async def test_hostile_content_is_only_text(inside, own_broker):
    registry = own_broker.services.registry_access.registry
    await registry.create(
        "/config/topics/evil", b'{"version":1,"config":{"cleanup.policy":"<img src=x onerror=alert(1)>"}}'
    )
    async with inside.at("/inside/registry?path=/config/topics/evil") as page:
        await expect(page.get_by_role("region", name="Content")).to_contain_text("<img src=x")


@pytest.mark.parametrize("console_of", [None], indirect=True)
async def test_the_console_of_another_cluster_says_where_it_is(console):
    async with console.at("/inside/registry") as page:
        await expect(page.get_by_text("Only an Ottla broker shows this")).to_be_visible()
        assert await accessibility_problems(page) == []


async def test_an_unknown_view(inside):
    async with inside.at("/inside/none") as page:
        await expect(page.get_by_text("Inside has no page")).to_be_visible()


async def test_the_palette_offers_the_views(inside):
    async with inside.at("/inside/none") as page:
        await page.keyboard.press("Control+k")
        await page.keyboard.type("inside: repl")
        await page.get_by_role("option", name=re.compile("^Inside: replication")).click()
        await expect(page).to_have_url(re.compile("/inside/replication$"))

"""What all pages share: navigation, the command palette, unknown paths, the description of the API."""

import re

import pytest
from playwright.async_api import expect

from support.console_pages import LOOKS, PHONE, accessibility_problems, overflow

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_unknown_page_leads_back(console):
    async with console.at("/topics/a/b/c/d") as page:
        await expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
        await expect(page).to_have_title("Not found · Ottla")


async def test_a_page_that_is_left_before_it_is_loaded_does_not_cover_the_next_one(console):
    async with console.at("/topics/a/b/c/d") as page:  # has no timer that the clock would not know
        await page.clock.install(time=0)
        await page.clock.pause_at(1000)
        both = "for (const path of paths) document.querySelector(`#navigation a[href='${path}']`).click()"
        await page.evaluate(f"(paths) => {{ {both} }}", ["/topics", "/brokers"])
        await expect(page.get_by_role("heading", name="Brokers", exact=True)).to_be_visible()
        await page.clock.run_for(1000)
        await expect(page.get_by_role("heading", name="Brokers", exact=True)).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)


async def test_the_palette_goes_to_pages_by_keyboard(console):
    async with console.at("/topics/a/b/c/d") as page:
        await page.keyboard.press("Control+k")
        await page.keyboard.type("ap")
        await expect(page.get_by_role("option", name=re.compile("^API"))).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("/api-docs$"))
        await expect(page.get_by_role("heading", name="REST API")).to_be_visible()
        await expect(page.get_by_role("link", name="API", exact=True)).to_have_attribute("aria-current", "page")


async def chosen(page, words, name):
    """Choose what the palette finds for some words; it must be the first."""
    await page.keyboard.press("Control+k")
    await page.keyboard.type(words)
    options = page.get_by_role("dialog", name="Commands").get_by_role("option")
    await expect(options.first).to_have_text(re.compile(name))
    await page.keyboard.press("Enter")


async def test_the_palette_finds_brokers_and_the_tabs_of_what_is_shown(console, broker):
    broker.create_topic("goal")
    first = min((await console.rest.get(f"/v3/clusters/{console.rest.cluster_id}/brokers"))["data"], key=str)
    async with console.at("/topics/goal/partitions") as page:
        await expect(page.get_by_role("heading", name="goal", exact=True)).to_be_visible()
        await chosen(page, "goal config", "^goal: Configuration")
        await expect(page).to_have_url(re.compile("/topics/goal/configuration$"))
        await expect(page.get_by_role("table", name="Settings")).to_be_visible()
        await chosen(page, f"{first['host']}:{first['port']}", f"^Broker {first['broker_id']}")
        await expect(page).to_have_url(re.compile(f"/brokers/{first['broker_id']}$"))
        await expect(page.get_by_role("link", name="Log levels")).to_be_visible()
        await chosen(page, "log levels", f"^Broker {first['broker_id']}: Log levels")
        await expect(page).to_have_url(re.compile("/log-levels$"))
        await chosen(page, f"broker {first['broker_id']}", f"^Broker {first['broker_id']}")


@pytest.mark.parametrize("look", LOOKS)
async def test_the_api_is_described_and_the_filter_is_in_the_address(console, look):
    async with console.at("/api-docs", **LOOKS[look]) as page:
        operations = page.locator("details")
        await expect(operations.first).to_be_visible()
        await operations.evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
        assert await overflow(page) <= 0
        await page.get_by_role("searchbox").fill("session")
        await expect(page).to_have_url(re.compile(r"\?q=session$"))
        await expect(operations).to_have_count(1)
        await operations.first.locator("summary").click()
        await expect(operations.first).to_contain_text("Session")
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await page.reload()
        await expect(operations).to_have_count(1)


async def test_a_server_that_is_gone_is_said_and_tried_again(console):
    async with console.at("/topics/a/b/c/d", allowed_error="503") as page:
        await page.route("**/api/openapi.json", lambda route: route.fulfill(status=503, json={"message": "No broker."}))
        await page.get_by_role("link", name="API", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("No broker.")
        await page.unroute("**/api/openapi.json")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name="REST API")).to_be_visible()


async def test_a_phone_shows_where_one_is(console, broker):
    broker.create_topic("shown")
    async with console.at("/topics/shown/danger", **PHONE) as page:
        await expect(page.get_by_role("link", name="Danger", exact=True)).to_be_in_viewport(ratio=0.9)
    async with console.at("/api-docs", **PHONE) as page:
        await expect(page.get_by_role("link", name="API", exact=True)).to_be_in_viewport(ratio=0.9)
        await expect(page.get_by_role("heading", name="REST API")).to_be_in_viewport(ratio=0.9)

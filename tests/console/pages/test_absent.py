"""Pages about what is not there, and lists of nothing: what they say, and the way from them."""

import re
from typing import Any

import pytest
from playwright.async_api import expect

from support.console_pages import LOOKS, accessibility_problems, overflow

pytestmark = pytest.mark.asyncio(loop_scope="session")
NOT_THERE = {
    "/topics/nope": ("There is no topic nope", "Topic nope", "All topics", "/topics"),
    "/groups/nope": ("There is no group nope", "Group nope", "All groups", "/groups"),
    "/brokers/99": ("There is no broker 99", "Broker 99", "All brokers", "/brokers"),
    "/transactions/nope": ("There is no transactional id nope", "nope", "All transactions", "/transactions"),
    "/security/nope": ("Security has no page nope", "users, acls, quotas, tokens", "Go to the users", "/security"),
    "/inside/nope": ("Inside has no page nope", "registry, storage", "Go to the registry", "/inside"),
    "/nope": ("There is no such page", "/nope", "Go to the overview", "/"),
}
"""Paths: the title, what the sentence names, the link and where it leads."""


async def looks_good(page: Any) -> None:
    assert await overflow(page) <= 0
    assert await accessibility_problems(page) == []


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", NOT_THERE)
async def test_a_page_about_nothing_names_it_and_leads_to_what_is_there(console, path, look):
    title, named, link, target = NOT_THERE[path]
    async with console.at(path, allowed_error="404", **LOOKS[look]) as page:
        main = page.get_by_role("main")
        await expect(main.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
        await expect(main.get_by_role("paragraph").first).to_contain_text(named)
        await expect(main.get_by_role("alert")).to_have_count(0)
        await looks_good(page)
        await main.get_by_role("link", name=link, exact=True).click()
        await expect(page).to_have_url(re.compile(f"{target}$"))


@pytest.mark.parametrize("look", LOOKS)
async def test_a_broker_without_topics_offers_to_create_one(console, look):
    async with console.at("/topics", **LOOKS[look]) as page:
        await expect(page.get_by_role("heading", name="There is no topic yet")).to_be_visible()
        await expect(page.get_by_text("ottla topics create")).to_be_visible()
        await expect(page.get_by_role("table", name="Topics")).to_be_hidden()
        await looks_good(page)
        await page.get_by_role("button", name="Create the first topic").click()
        await expect(page.get_by_role("dialog", name="Create topic")).to_be_visible()


async def test_the_first_topic_takes_the_place_of_the_offer(console, broker):
    async with console.at("/topics") as page:
        await expect(page.get_by_role("heading", name="There is no topic yet")).to_be_visible()
        broker.create_topic("first")
        await expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
        await expect(page.get_by_role("heading", name="There is no topic yet")).to_be_hidden()

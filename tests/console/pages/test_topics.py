"""The pages of topics: their list, the frame of one topic, and what destroys it."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from support.console_pages import LOOKS, accessibility_problems, overflow

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        for name in ("orders", "payments", "clicks"):
            await opened.create_topic(name, 3)
        yield opened


@pytest.mark.parametrize("look", LOOKS)
async def test_topics_are_searched_and_sorted_and_the_address_says_how(console, admin, look):
    async with console.at("/topics?q=s", **LOOKS[look]) as page:
        names = page.locator("tbody th a")
        await expect(names).to_have_text(["clicks", "orders", "payments"])
        await page.get_by_role("button", name="Topic", exact=True).click()
        await expect(page).to_have_url(re.compile("sort=-name"))
        await expect(names).to_have_text(["payments", "orders", "clicks"])
        await page.get_by_role("searchbox").fill("ord")
        await expect(names).to_have_text(["orders"])
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await page.reload()
        await expect(names).to_have_text(["orders"])
        await names.first.click()
        await expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()


async def test_a_topic_that_does_not_exist_leads_to_all(console, admin):
    async with console.at("/topics/nobody", allowed_error="404") as page:
        await expect(page.get_by_role("heading", name="There is no topic nobody")).to_be_visible()
        await page.get_by_role("link", name="All topics").click()
        await expect(page).to_have_url(re.compile("/topics$"))


async def test_a_page_that_a_topic_does_not_have(console, admin):
    async with console.at("/topics/orders/nothing") as page:
        await expect(page.get_by_role("heading", name="A topic has no page nothing")).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
async def test_a_topic_is_deleted_when_its_name_was_typed(console, admin, look):
    name = f"deleted-{look}"
    await admin.create_topic(name, 2)
    async with console.at(f"/topics/{name}/danger", **LOOKS[look]) as page:
        assert await accessibility_problems(page) == []
        assert await overflow(page) <= 0
        await page.get_by_role("button", name="Delete topic…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("its 2 partitions and all records")
        delete = dialog.get_by_role("button", name="Delete topic")
        await expect(delete).to_be_disabled()
        await dialog.get_by_role("textbox").fill(name)
        await delete.click()
        await expect(page.get_by_text(f"Topic {name} was deleted.")).to_be_visible()
        await expect(page).to_have_url(re.compile("/topics$"))
    assert name not in await admin.list_topics()

"""The tab Messages of a topic: pages, one record, filters, the live view."""

import json
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.producer.producer import Producer
from support.console_pages import LOOKS, PHONE, accessibility_problems, overflow
from support.console_records import make_orders

WITH_MILLISECONDS = re.compile(r":\d\d\.\d{3}")
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def orders(broker):
    await make_orders(broker.bootstrap_servers, "orders")


def rows(page):
    return page.locator(".records tbody tr")


async def test_pages_both_ways(console):
    async with console.at("/topics/orders/messages") as page:
        await expect(rows(page)).to_have_count(50)
        await expect(rows(page).first).to_contain_text('"order": 119')
        await expect(page.get_by_role("button", name="Newer")).to_be_disabled()
        await page.get_by_role("button", name="Older").click()
        await expect(rows(page).first).to_contain_text('"order": 69')
        await page.get_by_role("button", name="Older").click()
        await expect(rows(page)).to_have_count(20)
        await expect(page.get_by_role("button", name="Older")).to_be_disabled()
        await page.reload()
        await expect(rows(page).last).to_contain_text('"order": 0')
        await page.go_back()
        await expect(rows(page).first).to_contain_text('"order": 69')


async def places(page):
    return await rows(page).evaluate_all("(all) => all.map((one) => one.dataset.place)")


@pytest.mark.parametrize(
    ("query", "there", "back"), [("", "Older", "Newer"), ("?from=oldest", "Newer", "Older")], ids=["newest", "oldest"]
)
async def test_a_way_there_and_back_shows_the_same_pages(console, query, there, back):
    async with console.at(f"/topics/orders/messages{query}") as page:
        buttons = page.get_by_role("button", name=re.compile("Older|Newer"))
        pages, last = [], ""
        names = None
        for _ in range(3):
            await expect(rows(page).first).not_to_have_attribute("data-place", last)
            names = names or await buttons.all_inner_texts()
            pages.append(await places(page))
            last = pages[-1][0]
            if len(pages) < 3:
                await page.get_by_role("button", name=there).click()
        for seen in (pages[1], pages[0]):
            await page.get_by_role("button", name=back).click()
            await expect(rows(page).first).to_have_attribute("data-place", seen[0])
            assert await places(page) == seen
            assert await buttons.all_inner_texts() == names
        await expect(page.get_by_role("button", name=back)).to_be_disabled()
        await page.get_by_role("button", name=there).click()
        await expect(rows(page).first).to_have_attribute("data-place", pages[1][0])
        await page.reload()  # what is not in the address is forgotten
        await page.get_by_role("button", name=back).click()
        await expect(rows(page).first).to_have_attribute("data-place", pages[0][0])
        assert await places(page) == pages[0]
        assert await buttons.all_inner_texts() == names


async def test_numbers_keep_their_digits(console, broker):
    value = b'{"price": 30.0, "id": 9007199254740993, "small": 1e-7, "count": 5, "list": [-0.0, 123456789012345678901]}'
    broker.create_topic("numbers")
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send("numbers", value, partition=0)
    async with console.at("/topics/numbers/messages?record=0:0") as page:
        tree = page.get_by_role("complementary", name="Record").locator(".tree")
        numbers = ["30.0", "9007199254740993", "1e-7", "5", "-0.0", "123456789012345678901"]
        await expect(tree.locator(".tree-number")).to_have_text(numbers)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_record_with_all_that_is_known(console, look):
    async with console.at("/topics/orders/messages", **LOOKS[look]) as page:
        await expect(rows(page)).to_have_count(50)
        await expect(rows(page).first).to_contain_text(WITH_MILLISECONDS)
        assert await overflow(page) <= 0
        await rows(page).first.click()
        await expect(page).to_have_url(re.compile(r"record=2%3A39"))
        panel = page.get_by_role("complementary", name="Record")
        await expect(panel.get_by_role("heading")).to_have_text("Partition 2, offset 39")
        await expect(panel.locator(".tree")).to_contain_text('city: "Zürau"')
        await panel.get_by_role("tab", name="Headers (1)").click()
        await expect(panel.get_by_role("rowheader", name="trace")).to_be_visible()
        await panel.get_by_role("tab", name="Metadata").click()
        await expect(panel).to_contain_text("offsets 39 to 39, 1 record,")
        await expect(panel.get_by_role("row", name="Timestamp")).to_contain_text(WITH_MILLISECONDS)
        await expect(page).to_have_url(re.compile(r"part=metadata"))
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await page.reload()
        await expect(panel.get_by_role("tab", name="Metadata")).to_have_attribute("aria-selected", "true")
        await panel.get_by_role("button", name="Close the record").click()
        await expect(panel).to_be_hidden()


async def test_a_phone_shows_the_record_that_is_tapped(console):
    async with console.at("/topics/orders/messages", **PHONE) as page:
        panel = page.get_by_role("complementary", name="Record")
        for row in (19, 35):
            await rows(page).nth(row).tap()
            await expect(panel.get_by_role("link", name="Download the bytes")).to_be_in_viewport(ratio=1)
            await expect(panel.get_by_role("heading")).to_be_in_viewport(ratio=1)
            panel_box, header = await panel.bounding_box(), await page.get_by_role("banner").bounding_box()
            assert panel_box is not None
            assert header is not None
            assert panel_box["y"] >= header["y"] + header["height"]
            await panel.get_by_role("button", name="Close the record").tap()
            await expect(rows(page).nth(row)).to_be_in_viewport()


async def test_records_by_keyboard(console):
    async with console.at("/topics/orders/messages") as page:
        await rows(page).first.locator("a").focus()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        heading = page.get_by_role("complementary", name="Record").get_by_role("heading")
        await expect(heading).to_have_text("Partition 1, offset 39")
        await page.keyboard.press("ArrowDown")
        await expect(heading).to_have_text("Partition 0, offset 39")
        await page.keyboard.press("Escape")
        await expect(heading).to_be_hidden()
        await expect(rows(page).nth(2).locator("a")).to_be_focused()


async def test_where_to_begin_and_what_to_decode(console):
    async with console.at("/topics/orders/messages") as page:
        await page.get_by_label("Start").select_option("offset")
        await page.get_by_role("textbox", name="Offset").fill("38")
        await page.get_by_label("Partitions", exact=True).fill("0, 1")
        await page.get_by_label("Key as").select_option("hex")
        await page.get_by_role("button", name="Show").click()
        await expect(rows(page)).to_have_count(4)
        await expect(rows(page).first).to_contain_text("63 75 73")
        assert "from=offset%3A38&partitions=0%2C1&key_decoder=hex" in page.url
        await page.reload()
        await expect(rows(page)).to_have_count(4)
        await expect(page.get_by_role("textbox", name="Offset")).to_have_value("38")


async def test_a_search_and_its_errors(console):
    async with console.at("/topics/orders/messages", allowed_error="400") as page:
        await page.get_by_text("Filter", exact=True).click()
        await page.get_by_label("JSON path").fill("customer.city == Vienna")
        await page.get_by_role("button", name="Show").click()
        await expect(page.get_by_text("30 matches in 120 records")).to_be_visible()
        await expect(rows(page)).to_have_count(30)
        await page.get_by_label("JSON path").fill("")
        await page.get_by_label("Regular expression").fill("(")
        await page.get_by_role("button", name="Show").click()
        await expect(page.get_by_role("alert")).to_contain_text("is not a regular expression of RE2")
        await page.get_by_label("Regular expression").fill("nothing like this")
        await page.get_by_role("button", name="Show").click()
        await expect(page.get_by_role("heading", name="No record matches")).to_be_visible()
        await page.get_by_role("button", name="Clear").click()
        await expect(rows(page)).to_have_count(50)


async def test_the_live_view_pauses_and_goes_on(console, broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("live", partitions=1)
    async with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        console.at("/topics/live/messages") as page,
    ):
        await expect(page.get_by_role("heading", name="This topic has no records")).to_be_visible()
        async with page.expect_response(lambda one: ":tail" in one.url):
            await page.get_by_role("button", name="Live").click()
        await producer.send("live", b"first")
        await expect(rows(page)).to_have_count(1)
        await page.get_by_role("button", name="Pause").click()
        await producer.send("live", b"<img src=x onerror=alert(1)>")
        async with page.expect_response(lambda one: ":tail" in one.url):
            await page.get_by_role("button", name="Resume").click()
        await expect(rows(page)).to_have_count(2)
        await expect(rows(page).first).to_contain_text("<img src=x")
        assert await accessibility_problems(page) == []


async def test_a_live_view_that_is_ended_while_it_is_lost_does_not_come_back(console):
    lost = 'event: records\ndata: {"records": [], "skipped": 1, "at": "0:1"}\n\n'
    streams = []

    async def tail(route):
        streams.append(route.request.url)
        await route.fulfill(content_type="text/event-stream", body=lost)

    async with console.at("/topics/orders/messages") as page:
        await expect(rows(page)).to_have_count(50)
        await page.route("**/records:tail*", tail)
        await page.clock.install(time=0)
        await page.clock.pause_at(1000)
        async with page.expect_event("requestfinished", lambda one: ":tail" in one.url):
            await page.get_by_role("button", name="Live").click()
        await expect(page.get_by_text("Live: 0 records, 1 skipped")).to_be_visible()
        await page.get_by_role("button", name="End live view").click()
        await expect(rows(page)).to_have_count(50)
        await page.clock.run_for(2000)
        await expect(page.get_by_text("50 records of about")).to_be_visible()
        assert len(streams) == 1


async def test_a_download(console):
    async with console.at("/topics/orders/messages?from=oldest&partitions=1") as page:
        await page.get_by_text("Download").click()
        async with page.expect_download() as waiting:
            await page.get_by_role("link", name="JSON lines", exact=True).click()
        download = await waiting.value
        lines = (await download.path()).read_text().splitlines()
        assert [json.loads(one)["offset"] for one in lines] == list(range(40))

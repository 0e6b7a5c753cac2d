"""The pages of groups: the list, members, lag, timeline, resets and deletions."""

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.console_groups import BUSY, IDLE, PARTITIONS, TOPIC, groups_to_look_at
from support.console_pages import LOOKS, accessibility_problems, overflow
from support.polling import until
from support.quick_groups import BROKER_SETTINGS

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def broker_settings():
    return BROKER_SETTINGS


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def members(broker, admin):
    async with groups_to_look_at(broker.bootstrap_servers, admin) as found:
        yield found


async def commit(admin, group, offset):
    async def is_committed():
        offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(offset, 0, "by hand")}
        done = await admin.alter_group_offsets(group, offsets)
        return not any(done.values())

    await until(is_committed, f"{group} has an offset")


async def looks_good(page):
    assert await overflow(page) <= 0
    assert await accessibility_problems(page) == []


@pytest.mark.parametrize("look", LOOKS)
async def test_groups_are_searched_and_sorted(console, look):
    async with console.at("/groups?sort=-lag", **LOOKS[look]) as page:
        row = page.get_by_role("row", name=re.compile(IDLE))
        await expect(row).to_contain_text("75")
        await expect(row).to_contain_text("Empty")
        await expect(page.get_by_role("row", name=re.compile(BUSY))).to_contain_text("Stable")
        await looks_good(page)
        await page.get_by_role("searchbox").fill("bill")
        await expect(page.locator("tbody th a")).to_have_text([BUSY])
        await expect(page).to_have_url(re.compile("q=bill"))
        await page.locator("tbody th a").first.click()
        await expect(page.get_by_role("heading", name=BUSY, exact=True)).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
async def test_members_and_their_partitions(console, look):
    async with console.at(f"/groups/{BUSY}", **LOOKS[look]) as page:
        await expect(page.get_by_text("worker-1", exact=True)).to_be_visible()
        await expect(page.get_by_text("worker-2", exact=True)).to_be_visible()
        squares = page.get_by_role("list", name=f"Partitions of {TOPIC}").get_by_role("listitem")
        await expect(squares).to_have_count(PARTITIONS)
        await expect(squares.first).to_have_attribute("title", re.compile("^partition 0: member [12], lag 20$"))
        await looks_good(page)


@pytest.mark.parametrize("look", LOOKS)
async def test_lag_with_its_history(console, look):
    async with console.at(f"/groups/{IDLE}/lag", **LOOKS[look]) as page:
        row = page.get_by_role("row", name=re.compile(f"{TOPIC}-0"))
        await expect(row).to_contain_text("15")
        await expect(page.locator(".chart .legend")).to_contain_text("All partitions: 75")
        await looks_good(page)


async def test_the_chart_has_the_partitions_with_the_largest_lag(console, broker, admin):
    await admin.create_topic("uneven", 7)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await asyncio.gather(
            *(producer.send("uneven", b"one", partition=partition) for partition in range(7) for _ in range(partition))
        )
    offsets = {TopicPartition("uneven", partition): OffsetAndMetadata(0) for partition in range(7)}
    await admin.alter_group_offsets("uneven", offsets)
    async with console.at("/groups/uneven/lag") as page:
        shown = [f"uneven-{partition}: {partition}" for partition in (6, 5, 4, 3, 2)]
        await expect(page.locator(".chart .legend li")).to_have_text(["All partitions: 21", *shown])
        await expect(page.get_by_text("the 5 partitions with the largest lag, of 7")).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
async def test_the_timeline_of_a_group(console, look):
    async with console.at(f"/groups/{BUSY}/timeline", **LOOKS[look]) as page:
        await expect(page.get_by_role("img", name=re.compile("^worker-1, from .*: 3 partitions"))).to_be_visible()
        await expect(page.get_by_role("cell", name=re.compile("worker-2 .* was there"))).to_be_visible()
        await looks_good(page)


async def test_a_member_that_leaves_is_on_the_timeline(console, broker, members):
    async with console.at(f"/groups/{BUSY}/timeline") as page:
        await expect(page.get_by_role("cell", name=re.compile("worker-2 .* was there"))).to_be_visible()
        await members[1].close()
        await expect(page.get_by_role("cell", name=re.compile("worker-2 .* left"))).to_be_visible()
        await expect(page.get_by_role("cell", name=re.compile("worker-1 .* got"))).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
async def test_a_reset_shows_what_it_does_first_and_can_be_undone(console, admin, look):
    group = f"reset-{look}"
    await commit(admin, group, 5)
    partition = TopicPartition(TOPIC, 0)
    async with console.at(f"/groups/{group}/reset?to=shift&value=-2", **LOOKS[look]) as page:
        await expect(page.get_by_label("Reset to")).to_have_value("shift")
        await page.get_by_role("button", name="Show what changes").click()
        row = page.get_by_role("row", name=re.compile(f"{TOPIC}-0"))
        await expect(row.get_by_role("cell")).to_have_text(["5", "3", "-2", "17", ""])
        assert (await admin.list_group_offsets(group))[partition].offset == 5
        await looks_good(page)
        await page.get_by_role("button", name="Reset 1 offset", exact=True).click()
        await expect(page.get_by_role("status").filter(has_text="1 offset of")).to_be_visible()
        assert (await admin.list_group_offsets(group))[partition].offset == 3
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("button", name="Undo")).to_be_visible()

        async def is_back():
            return (await admin.list_group_offsets(group))[partition] == OffsetAndMetadata(5, 0, "by hand")

        await until(is_back, "the offset is what it was")


async def test_a_reset_to_an_offset_of_each_partition(console, admin):
    await commit(admin, "explicit", 5)
    async with console.at("/groups/explicit/reset") as page:
        await page.get_by_label("Reset to").select_option("explicit")
        await expect(page).to_have_url(re.compile("to=explicit"))
        await page.get_by_label(f"{TOPIC}-0").fill("7")
        await page.get_by_role("button", name="Show what changes").click()
        await page.get_by_role("button", name="Reset 1 offset", exact=True).click()

        async def is_reset():
            return (await admin.list_group_offsets("explicit"))[TopicPartition(TOPIC, 0)].offset == 7

        await until(is_reset, "the offset is reset")


async def test_a_group_with_members_is_not_reset(console):
    async with console.at(f"/groups/{BUSY}/reset") as page:
        await expect(page.get_by_role("status").filter(has_text="stop its consumers first")).to_be_visible()
        await expect(page.get_by_role("button", name="Show what changes")).to_be_disabled()


async def test_offsets_and_a_group_are_deleted(console, admin):
    # The page asks every two seconds, so it may see that a group without offsets is gone.
    await commit(admin, "deleted", 5)
    async with console.at("/groups/deleted", allowed_error="404") as page:
        await page.get_by_role("button", name="Delete offsets…").click()
        await expect(page.get_by_role("dialog")).to_contain_text("forgets where it was")
        assert await accessibility_problems(page) == []
        await page.get_by_role("button", name="Delete offsets", exact=True).click()
        await expect(page.get_by_role("status").filter(has_text="1 committed offset of")).to_be_visible()
        assert await admin.list_group_offsets("deleted") == {}
        await page.get_by_role("button", name="Undo").click()
        await expect(
            page.get_by_role("status").filter(has_text=f"1 committed offset of {TOPIC} restored.")
        ).to_be_visible()
        restored = (await admin.list_group_offsets("deleted"))[TopicPartition(TOPIC, 0)]
        assert restored == OffsetAndMetadata(5, 0, "by hand")
    async with console.at("/groups/deleted", allowed_error="404") as page:
        await page.get_by_role("button", name="Delete group…").click()
        button = page.get_by_role("button", name="Delete group", exact=True)
        await expect(button).to_be_disabled()
        await page.get_by_label("Type deleted to confirm").fill("deleted")
        await button.click()
        await expect(page).to_have_url(re.compile("/groups$"))
        assert "deleted" not in [one.group_id for one in await admin.list_groups()]


async def test_a_group_with_members_is_not_deleted_and_the_reason_is_said(console):
    async with console.at(f"/groups/{BUSY}", allowed_error="409") as page:
        await page.get_by_role("button", name="Delete group…").click()
        await page.get_by_label(f"Type {BUSY} to confirm").fill(BUSY)
        await page.get_by_role("button", name="Delete group", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("has members now")


async def test_a_group_or_page_that_does_not_exist(console):
    async with console.at("/groups/nobody", allowed_error="404") as page:
        await expect(page.get_by_role("heading", name="There is no group nobody")).to_be_visible()
    async with console.at(f"/groups/{IDLE}/nothing") as page:
        await expect(page.get_by_role("heading", name="A group has no page nothing")).to_be_visible()


async def test_the_palette_finds_groups(console):
    async with console.at("/groups") as page:
        await page.keyboard.press("Control+k")
        await page.keyboard.type("audi")
        await expect(page.get_by_role("option", name=re.compile(IDLE))).to_be_visible()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name=IDLE, exact=True)).to_be_visible()

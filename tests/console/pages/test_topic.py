"""The tabs of a topic: partitions, consumers, configuration, deleting records."""

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.console_pages import LOOKS, accessibility_problems, overflow
from support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def brokers_needed():
    return 2


@pytest.fixture(scope="module")
def broker_settings():
    """No election, five seconds after the start of the controller, that a page should offer."""
    return {"auto.leader.rebalance.enable": "false"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        yield opened


async def filled(broker, admin, name, records=10, **options):
    """A topic with records in partition 0."""
    await admin.create_topic(name, **options)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(records):
            await producer.send(name, b"value", partition=0)


def cells(page, number):
    """The cells of a row of the first table: 0 is its header."""
    return page.locator("tbody tr").nth(number).locator("th, td")


@pytest.mark.parametrize("look", LOOKS)
async def test_partitions_with_their_leaders_and_offsets(console, broker, admin, look):
    name = f"parts-{look}"
    await filled(broker, admin, name, assignment={0: [1, 2], 1: [2, 1], 2: [2, 1]})
    async with console.at(f"/topics/{name}/partitions", **LOOKS[look]) as page:
        await expect(cells(page, 0).nth(6)).to_have_text("10")
        await expect(cells(page, 0).nth(1)).to_have_text("1")
        await expect(cells(page, 1).nth(2)).to_have_text("2, 1")
        await expect(page.locator(".bars").first).to_contain_text(re.compile(r"Broker 1\s*1\s*Broker 2\s*2"))
        await expect(page.locator("dd").nth(2)).to_have_text("10")
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_partitions_are_added(console, admin):
    await admin.create_topic("growing", 2, 1)
    async with console.at("/topics/growing/partitions") as page:
        await page.get_by_role("button", name="Add partitions…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Partitions").fill("2")
        await expect(dialog.get_by_text("More than 2: partitions cannot be taken away.")).to_be_visible()
        await dialog.get_by_label("Partitions").fill("5")
        await dialog.get_by_role("button", name="Add partitions").click()
        await expect(page.get_by_text("growing has 5 partitions now.")).to_be_visible()
        await expect(page.locator("tbody tr")).to_have_count(5)


async def test_replicas_are_moved_and_leaders_elected(console, admin):
    await admin.create_topic("wandering", assignment={0: [1]})
    async with console.at("/topics/wandering/partitions") as page:
        await page.get_by_role("button", name="Move replicas…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_text("Nothing moves")).to_be_visible()
        move = dialog.get_by_role("button", name="Move replicas")
        await expect(move).to_be_disabled()
        await dialog.get_by_label("1", exact=True).uncheck()
        await expect(dialog.get_by_text("Choose at least 1 broker")).to_be_visible()
        await dialog.get_by_label("2", exact=True).check()
        await expect(dialog.get_by_text("0: 1 → 2")).to_be_visible()
        assert await accessibility_problems(page) == []
        await move.click()
        await expect(page.get_by_text("1 partition of wandering being moved.")).to_be_visible()
        await expect(cells(page, 0).nth(2)).to_have_text("2")
        await expect(cells(page, 0).nth(1)).to_have_text("2")
        await page.get_by_role("button", name="Elect leaders…").click()
        await expect(dialog.get_by_text("All partitions with a leader are led by their preferred one.")).to_be_visible()
        await expect(dialog.get_by_role("button", name="Elect")).to_be_disabled()


async def test_a_leader_that_is_not_preferred_is_replaced(console, admin):
    await admin.create_topic("elected", assignment={0: [1, 2]})
    await admin.alter_partition_reassignments({TopicPartition("elected", 0): [2, 1]})

    async def is_reordered():
        partition = (await admin.describe_topics(["elected"]))["elected"].partitions[0]
        return partition.replicas == (2, 1) and partition.leader == 1 and set(partition.isr) == {1, 2}

    await until(is_reordered, "the replicas have another order")
    async with console.at("/topics/elected/partitions") as page:
        await expect(cells(page, 0).nth(1)).to_contain_text("not preferred")
        await page.get_by_role("button", name="Elect leaders…").click()
        await page.get_by_role("dialog").get_by_role("button", name="Elect").click()
        await expect(page.get_by_text("1 leader of elected elected.")).to_be_visible()
        await expect(cells(page, 0).nth(1)).to_have_text("2")


@pytest.mark.parametrize("look", LOOKS)
async def test_groups_with_their_lag(console, broker, admin, look):
    name = f"read-{look}"
    await filled(broker, admin, name, partitions=2, replication_factor=1)
    async with console.at(f"/topics/{name}/consumers", **LOOKS[look]) as page:
        await expect(page.get_by_role("heading", name="No group reads this topic")).to_be_visible()
        await admin.alter_group_offsets(f"group-{look}", {TopicPartition(name, 0): OffsetAndMetadata(4)})
        await page.reload()
        await expect(page.get_by_role("row", name=f"group-{look}")).to_contain_text("6")
        await page.get_by_role("button", name=f"Partitions of group-{look}").click()
        await expect(page).to_have_url(re.compile(f"group=group-{look}"))
        await expect(page.get_by_role("heading", name=f"Partitions of group-{look}")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


@pytest.mark.parametrize("look", LOOKS)
async def test_a_setting_is_changed_undone_and_reset(console, admin, look):
    name = f"tuned-{look}"
    await admin.create_topic(name, 1, 1)
    async with console.at(f"/topics/{name}/configuration?q=retention.ms", **LOOKS[look]) as page:
        row = page.get_by_role("row", name=re.compile("^retention.ms"))
        await expect(row).to_contain_text("604800000 = 7 d")
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        dialog = page.get_by_role("dialog")
        await row.get_by_role("button", name="Edit").click()
        value = dialog.get_by_label(re.compile("^Value"))
        await value.fill("soon")
        await expect(dialog.get_by_text("A whole number, please.")).to_be_visible()
        await value.fill("1000")
        await expect(dialog.locator(".removed")).to_contain_text("retention.ms=604800000")
        await expect(dialog.locator(".added")).to_contain_text("retention.ms=1000")
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Apply").click()
        await expect(row).to_contain_text("this topic")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text(f"retention.ms of {name} is as before.")).to_be_visible()
        await expect(row).to_contain_text("604800000 = 7 d")
        await row.get_by_role("button", name="Edit").click()
        await value.fill("2000")
        await dialog.get_by_role("button", name="Apply").click()
        await expect(row).to_contain_text("2000")
        await row.get_by_role("button", name="Reset").click()
        await expect(dialog.locator(".removed")).to_contain_text("retention.ms=2000")
        await dialog.get_by_role("button", name="Reset").click()
        await expect(row).to_contain_text("604800000 = 7 d")


async def test_settings_that_come_late_do_not_show_older_values(console, admin):
    await admin.create_topic("late", 1, 1)
    asked, released = asyncio.Event(), asyncio.Event()

    async def hold(route):
        answer = await route.fetch()
        asked.set()
        await released.wait()
        await route.fulfill(response=answer)

    async with console.at("/topics/late/configuration?q=retention.") as page:
        dialog = page.get_by_role("dialog")

        async def change(name, value):
            await page.get_by_role("button", name=f"Edit {name}").click()
            await dialog.get_by_label(re.compile("^Value")).fill(value)
            await dialog.get_by_role("button", name="Apply").click()
            await expect(page.get_by_role("row", name=re.compile(f"^{name}"))).to_contain_text(f"{value} ")

        await change("retention.ms", "1000")
        await page.route("**/topics/late/settings", hold, times=1)
        await page.get_by_role("button", name="Undo").click()
        await asked.wait()
        await change("retention.bytes", "5000")
        released.set()
        await expect(page.get_by_text("retention.ms of late is as before.")).to_be_visible()
        await expect(page.get_by_role("row", name=re.compile("^retention.bytes"))).to_contain_text("5000 ")
        await expect(page.get_by_role("row", name=re.compile("^retention.ms"))).to_contain_text("604800000 = 7 d")


async def test_a_value_that_the_broker_refuses_is_said(console, admin):
    await admin.create_topic("refused", 1, 1)
    async with console.at("/topics/refused/configuration?q=min.insync", allowed_error="400") as page:
        await page.get_by_role("button", name="Edit min.insync.replicas").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label(re.compile("^Value")).fill("99999999999")
        await dialog.get_by_role("button", name="Apply").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("min.insync.replicas")


@pytest.mark.parametrize("look", LOOKS)
async def test_records_are_deleted_when_the_name_was_typed(console, broker, admin, look):
    name = f"cut-{look}"
    await filled(broker, admin, name, partitions=2, replication_factor=1)
    async with console.at(f"/topics/{name}/danger", **LOOKS[look]) as page:
        await page.get_by_label("Delete", exact=True).select_option("offset")
        await page.get_by_label("Before offset").fill("4")
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await page.get_by_role("button", name="Delete records…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Up to 4 records in 1 partition are deleted.")
        await expect(dialog).to_contain_text("Partition 0: offsets 0 to 3, then it starts at 4")
        await dialog.get_by_role("textbox").fill(name)
        await dialog.get_by_role("button", name="Delete 4 records").click()
        await expect(page.get_by_text(f"4 records of {name} deleted.")).to_be_visible()
        await page.get_by_role("button", name="Delete records…").click()
        await expect(page.get_by_role("alert")).to_contain_text("There are no such records.")
        await page.get_by_label("Delete", exact=True).select_option("time")
        await page.get_by_label("Before", exact=True).fill("2999-01-01T00:00:00")
        await page.get_by_role("button", name="Delete records…").click()
        await expect(dialog).to_contain_text("Up to 6 records in 1 partition are deleted.")
    found = await admin.list_offsets({TopicPartition(name, 0): -2})
    assert found[TopicPartition(name, 0)].offset == 4

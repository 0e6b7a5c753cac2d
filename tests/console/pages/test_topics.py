"""The pages of topics: their list, the frame of one topic, and what destroys it."""

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.console_pages import LOOKS, accessibility_problems, console_pages, overflow
from support.mock_cluster import MockCluster

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
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


async def test_internal_topics_are_hidden_until_the_address_asks_for_them(console, admin):
    await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
    async with console.at("/topics") as page:
        await expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
        offsets = page.get_by_role("link", name="__consumer_offsets")
        await expect(offsets).to_have_count(0)
        await page.get_by_label("Internal topics").check()
        await expect(page).to_have_url(re.compile("internal=yes"))
        await expect(offsets).to_be_visible()
        await page.reload()
        await expect(offsets).to_be_visible()


async def test_records_and_sizes_of_topics(console, admin, broker):
    await admin.create_topic("filled", 2)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(7):
            await producer.send("filled", b"value", partition=number % 2)
    async with console.at("/topics?q=filled") as page:
        await expect(page.get_by_role("row", name="filled").get_by_role("cell").nth(3)).to_have_text("7")


@pytest.mark.parametrize("look", LOOKS)
async def test_a_topic_is_created_with_a_setting(console, broker, admin, look):
    name = f"created-{look}"
    async with console.at("/topics", **LOOKS[look]) as page:
        await page.get_by_role("button", name="Create topic").click()
        await expect(page).to_have_url(re.compile("create=yes"))
        dialog = page.get_by_role("dialog")
        field = dialog.get_by_label("Name")
        for wrong, rule in {
            "a b": 'Only ASCII letters, digits, . _ and -, not " ".',
            "..": "A topic cannot be named . or ..",
            "a" * 250: "At most 249 characters, not 250.",
            "orders": "This topic exists already.",
        }.items():
            await field.fill(wrong)
            await expect(dialog.get_by_text(rule)).to_be_visible()
        await field.fill(name)
        await dialog.get_by_label("Replicas of each partition").fill("4")
        rule = f"At most {len(broker.brokers)}: each replica is on another broker."
        await expect(dialog.get_by_text(rule)).to_be_visible()
        await dialog.get_by_label("Replicas of each partition").fill("1")
        await dialog.get_by_label("Partitions", exact=True).fill("4")
        await dialog.get_by_text("Advanced settings").click()
        await dialog.get_by_role("checkbox", name="retention.ms", exact=False).last.check()
        await dialog.get_by_label("Value of retention.ms").fill("-2")
        await expect(dialog.get_by_text("At least -1.")).to_be_visible()
        await dialog.get_by_label("Value of retention.ms").fill("3600000")
        assert await accessibility_problems(page) == []
        assert await overflow(page) <= 0
        await dialog.get_by_role("button", name="Create topic").click()
        await expect(page.get_by_text(f"Topic {name} was created.")).to_be_visible()
        await expect(page).to_have_url(re.compile("/topics$"))
        await page.get_by_role("link", name="Open").click()
        await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    assert (await rest_settings(console, name))["retention.ms"] == "3600000"
    assert len((await admin.describe_topics([name]))[name].partitions) == 4


async def test_what_was_typed_before_the_brokers_are_known_is_checked_when_they_are(console, broker, admin):
    known = asyncio.Event()

    async def late(route):
        await known.wait()
        await route.continue_()

    async with console.at("/topics") as page:
        await page.route("**/v3/clusters/*/brokers", late)
        await page.get_by_role("button", name="Create topic").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Replicas of each partition").fill("4")
        known.set()
        rule = f"At most {len(broker.brokers)}: each replica is on another broker."
        await expect(dialog.get_by_text(rule)).to_be_visible()


async def rest_settings(console, topic):
    """The settings that are set for a topic."""
    found = await console.rest.get(f"/api/v1/topics/{topic}/settings")
    return {one["name"]: one["value"] for one in found["settings"] if one["source"] == "DYNAMIC_TOPIC_CONFIG"}


async def test_a_created_topic_is_taken_back(console, admin):
    async with console.at("/topics?create=yes&name=mistake") as page:
        await page.get_by_role("dialog").get_by_role("button", name="Create topic").click()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("Topic mistake was deleted again.")).to_be_visible()
    assert "mistake" not in await admin.list_topics()


POLICIES = {"": {}, "own": {"cleanup.policy": "compact,delete"}, "same": {"cleanup.policy": "compact"}}
"""What is set for some topics, by the ends of their names."""


async def several_topics(admin, name):
    """Create these topics."""
    for end, settings in POLICIES.items():
        await admin.create_topic(f"{name}-{end}", 1, configs=settings)


async def choose(page, name, *ends):
    """Choose some of these topics. Returns the part of the page that says what can be done with them."""
    for end in ends:
        await page.get_by_label(f"Select {name}-{end}", exact=True).check()
    return page.get_by_role("group", name="Selected topics")


async def policies(console, name):
    """What is set for these topics."""
    return {end: await rest_settings(console, f"{name}-{end}") for end in POLICIES}


@pytest.mark.parametrize("look", LOOKS)
async def test_several_topics_are_configured_after_their_differences_and_as_before_after_undo(console, admin, look):
    name = f"several-{look}"
    await several_topics(admin, name)
    async with console.at(f"/topics?q={name}", **LOOKS[look]) as page:
        selection = await choose(page, name, *POLICIES)
        await expect(selection).to_contain_text("3 topics selected")
        await selection.get_by_role("button", name="Configure…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Setting").select_option("cleanup.policy")
        await dialog.get_by_label("Value", exact=True).fill("compact")
        await expect(dialog.get_by_text("Changes 2 of 3 topics.")).to_be_visible()
        changes = dialog.get_by_role("group", name="What changes")
        await expect(changes.locator("code")).to_have_text([f"{name}-", f"{name}-own"])
        after = "After: + cleanup.policy=compact "
        await expect(changes.locator("p")).to_have_text(
            ["Before: − cleanup.policy=delete inherited ", after, "Before: − cleanup.policy=compact,delete ", after]
        )
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        assert await policies(console, name) == POLICIES
        await dialog.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("cleanup.policy of 2 topics is compact now.")).to_be_visible()
        assert await policies(console, name) == dict.fromkeys(POLICIES, POLICIES["same"])
        await expect(selection).to_be_hidden()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("cleanup.policy of 2 topics is as before.")).to_be_visible()
        assert await policies(console, name) == POLICIES


async def test_a_setting_of_several_topics_is_reset_and_a_topic_that_is_gone_is_named(console, admin):
    await several_topics(admin, "reset")
    async with console.at("/topics?q=reset", allowed_error="404") as page:
        selection = await choose(page, "reset", *POLICIES)
        await selection.get_by_role("button", name="Configure…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Setting").select_option("cleanup.policy")
        await dialog.get_by_label("Reset").check()
        await expect(dialog.get_by_text("Changes 2 of 3 topics.")).to_be_visible()
        await expect(dialog.locator(".added")).to_have_text(["After: + cleanup.policy=delete inherited "] * 2)
        await admin.delete_topics(["reset-own"])
        await dialog.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("1 topic failed. reset-own: ")).to_be_visible()
        await expect(page.get_by_text("cleanup.policy of 1 topic was reset.")).to_be_visible()
        assert await rest_settings(console, "reset-same") == {}
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("cleanup.policy of 1 topic is as before.")).to_be_visible()
        assert await rest_settings(console, "reset-same") == POLICIES["same"]


async def test_what_changes_nothing_is_not_applied(console, admin):
    await admin.create_topic("steady", 1)
    async with console.at("/topics?q=steady") as page:
        await page.get_by_label("Select steady").check()
        await page.get_by_role("button", name="Configure…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Reset").check()
        await expect(dialog.get_by_text("Changes 0 of 1 topic.")).to_be_visible()
        await dialog.get_by_role("button", name="Apply").click()
        await expect(dialog.get_by_role("alert")).to_have_text("Nothing changes.")


async def test_several_topics_are_deleted(console, admin):
    for number in range(3):
        await admin.create_topic(f"gone-{number}", 1)
    async with console.at("/topics?q=gone") as page:
        selection = await choose(page, "gone", 0, 1)
        dialog = page.get_by_role("dialog")
        await selection.get_by_role("button", name="Delete…").click()
        await dialog.get_by_role("textbox").fill("delete 2")
        await dialog.get_by_role("button", name="Delete 2 topics").click()
        await expect(page.get_by_text("2 topics deleted.")).to_be_visible()
        await expect(page.locator("tbody th a")).to_have_text(["gone-2"])


async def test_the_palette_finds_topics_and_creates_one(console, admin):
    async with console.at("/topics") as page:
        await expect(page.get_by_role("heading", name="Topics", exact=True)).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("paym")
        await page.get_by_role("option", name=re.compile("^payments")).click()
        await expect(page).to_have_url(re.compile("/topics/payments$"))
        await expect(page.get_by_role("heading", name="payments", exact=True)).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("create topic")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog").get_by_role("heading", name="Create topic")).to_be_visible()


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


async def test_of_ten_thousand_topics_only_those_in_view_are_in_the_page(console, admin):
    names = [f"topic-{number:05}" for number in range(10_000)]
    one = {"is_internal": False, "partitions": 3, "replication_factor": 1, "under_replicated": 0, "offline": 0}
    many = {"topics": [{"name": name} | one for name in names]}
    async with console.at("/topics/nobody", allowed_error="404") as page:
        await page.route("**/api/v1/topics", lambda route: route.fulfill(json=many))
        await page.get_by_role("link", name="All topics").click()
        await expect(page.get_by_role("status").get_by_text("10,000 topics")).to_be_visible()
        rows = page.locator("tbody tr")
        assert await rows.count() < 200
        await page.evaluate("scrollTo(0, document.body.scrollHeight)")
        await expect(page.get_by_role("link", name="topic-09999")).to_be_visible()
        assert await rows.count() < 200
        await page.get_by_role("searchbox").fill("0777")
        await expect(page.get_by_text("11 of 10,000 topics")).to_be_visible()
        await expect(page.get_by_role("link", name="topic-07770")).to_be_visible()


async def test_what_is_not_known_is_said_above_what_is(console, admin):
    async with console.at("/topics/nobody", allowed_error="404") as page:
        silent = {"time_ms": 1, "topics": [], "problems": ["Broker 2 did not answer within 3 s."]}
        await page.route("**/api/v1/topic-statistics", lambda route: route.fulfill(json=silent))
        await page.get_by_role("link", name="All topics").click()
        await expect(page.get_by_text("Broker 2 did not answer within 3 s.")).to_be_visible()
        await expect(page.get_by_role("row", name="orders").get_by_role("cell").nth(3)).to_have_text("–")


async def test_topics_of_a_cluster_that_is_not_ours(browser):
    cluster = MockCluster()
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await producer.send("orders", b"first", partition=0)  # creates the topic
    async with console_pages(browser, cluster.bootstrap) as pages, pages.at("/topics") as page:
        await page.get_by_role("link", name="orders").click()
        await page.get_by_role("link", name="Partitions").click()
        await expect(page.locator("tbody tr").first.get_by_role("cell").nth(5)).to_have_text("1")
        await page.get_by_role("link", name="Danger").click()
        await expect(page.get_by_role("button", name="Delete topic…")).to_be_enabled()

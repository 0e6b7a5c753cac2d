"""The tab Produce of a topic: one record, a copy of a record, and many that are pasted. confluent-kafka reads them."""

import base64
import re

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as OtherProducer
from playwright.async_api import expect

from support.console_pages import LOOKS, accessibility_problems, overflow
from support.deadlines import DEADLINE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")
BINARY = bytes(range(256))


def records_of(broker, topic, count, partition=0):
    """The first records of a partition: key, value, headers."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found = consumer.consume(count, DEADLINE_S)
        return [(one.key(), one.value(), one.headers()) for one in found]
    finally:
        consumer.close()


def form(page, name="One record"):
    return page.get_by_role("form", name=name)


async def produce(page):
    await form(page).get_by_role("button", name="Produce", exact=True).click()


@pytest.mark.parametrize("look", LOOKS)
async def test_a_record_with_everything(console, broker, look):
    name = f"whole-{look}"
    broker.create_topic(name, partitions=2)
    async with console.at(f"/topics/{name}/produce", **LOOKS[look]) as page:
        one = form(page)
        await one.get_by_label("Key is").select_option("text")
        await one.get_by_label("Key", exact=True).fill("klíč")
        await one.get_by_label("Value is", exact=True).select_option("json")
        await one.get_by_label("Value", exact=True).fill('{"number": 1.50}')
        await one.get_by_role("button", name="Add header").click()
        await one.get_by_label("Name of the header").fill("trace")
        await one.get_by_label("Value of the header", exact=True).fill("a b")
        await one.get_by_label("Partition").select_option("1")
        await one.get_by_label("Timestamp").fill("2024-02-29T12:00:00.125")
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await produce(page)
        await expect(page.get_by_text("Record written to partition 1 at offset 0.")).to_be_visible()
        await page.get_by_role("link", name="Show it").click()
        await expect(page.get_by_role("heading", name="Partition 1, offset 0")).to_be_visible()
        await expect(page.get_by_role("table", name="Records")).to_contain_text("klíč")
    assert records_of(broker, name, 1, 1) == [("klíč".encode(), b'{"number": 1.50}', [("trace", b"a b")])]


async def test_what_is_no_json_is_said_and_not_sent(console, broker):
    broker.create_topic("wrong")
    async with console.at("/topics/wrong/produce") as page:
        one = form(page)
        await one.get_by_label("Value is", exact=True).select_option("json")
        await one.get_by_label("Value", exact=True).fill('{"number": }')
        await expect(one.get_by_text(re.compile("Unexpected token"))).to_be_visible()
        await produce(page)
        await one.get_by_label("Value is", exact=True).select_option("base64")
        await expect(one.get_by_text("This is not base64 (with +, / and =).")).to_be_visible()
        await one.get_by_label("Value", exact=True).fill(base64.b64encode(BINARY).decode())
        await produce(page)
        await expect(page.get_by_text("Record written to partition 0 at offset 0.")).to_be_visible()
    assert records_of(broker, "wrong", 1) == [(None, BINARY, None)]


async def test_a_tombstone_needs_a_key_in_a_compacted_topic(console, broker):
    broker.create_topic("compacted", configs={"cleanup.policy": "compact"})
    async with console.at("/topics/compacted/produce") as page:
        one = form(page)
        await one.get_by_label("Value is", exact=True).select_option("null")
        await expect(one.get_by_text("A value of null is a tombstone")).to_be_visible()
        await produce(page)
        await expect(one.get_by_role("alert")).to_contain_text("key")
        await one.get_by_label("Key is").select_option("text")
        await one.get_by_label("Key", exact=True).fill("k")
        await produce(page)
        await expect(page.get_by_text("Tombstone written to partition 0 at offset 0.")).to_be_visible()
    assert records_of(broker, "compacted", 1) == [(b"k", None, None)]


async def test_a_copy_has_the_same_bytes(console, broker):
    broker.create_topic("copied")
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap_servers})
    headers = [("binary", BINARY), ("text", b"two\nlines"), ("none", None)]
    producer.produce("copied", BINARY, "čtyři\n".encode(), headers=headers)
    assert producer.flush(DEADLINE_S) == 0
    async with console.at("/topics/copied?record=0:0") as page:
        await page.get_by_role("link", name="Produce again…").click()
        await expect(page.get_by_role("heading", name="A copy of record 0 of partition 0")).to_be_visible()
        await produce(page)
        await expect(page.get_by_text("Record written to partition 0 at offset 1.")).to_be_visible()
    first, second = records_of(broker, "copied", 2)
    assert first == second == ("čtyři\n".encode(), BINARY, headers)


async def test_a_copy_of_a_record_that_is_not_there(console, broker):
    broker.create_topic("gone")
    async with console.at("/topics/gone/produce?resend=0:7", allowed_error="404") as page:
        await expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("Record 0:7 cannot be copied")
        await expect(form(page)).to_be_visible()


async def test_lines_that_cannot_be_read_are_named_before_anything_is_written(console, broker):
    broker.create_topic("pasted")
    async with console.at("/topics/pasted/produce") as page:
        many = form(page, "Many records")
        lines = ['{"value": "first"}', "", '{"key": 1}', "{", '{"value": "last", "headers": [["h", "x"]]}']
        await many.get_by_label("Records").fill("\n".join(lines))
        await expect(many.get_by_role("status")).to_contain_text("2 lines cannot be read:")
        await expect(many.get_by_role("status")).to_contain_text("line 3: key must be a string or null")
        await expect(many.get_by_role("button", name="Produce")).to_be_disabled()
        await many.get_by_label("Records").fill("\n".join([lines[0], lines[4]]))
        await many.get_by_role("button", name="Produce 2 records").click()
        await expect(page.get_by_text("2 records written to pasted.")).to_be_visible()
        await many.get_by_label("Format").select_option("key")
        await many.get_by_label("Records").fill("k\tv")
        await many.get_by_role("button", name="Produce 1 record").click()
        await expect(page.get_by_text("1 record written to pasted.")).to_be_visible()
        assert await accessibility_problems(page) == []
    found = records_of(broker, "pasted", 3)
    assert found == [(None, b"first", None), (None, b"last", [("h", b"x")]), (b"k", b"v", None)]


async def test_what_was_downloaded_is_produced_again(console, broker, tmp_path):
    broker.create_topic("from", partitions=2)
    broker.create_topic("to", partitions=2)
    producer = OtherProducer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(1200):
        producer.produce("from", BINARY[: number % 7], b"%d" % number, number % 2, headers=[("h", BINARY)])
    producer.produce("from", None, b"tombstone", 0)
    assert producer.flush(DEADLINE_S) == 0
    async with console.at("/topics/from?from=oldest") as page:
        await page.get_by_text("Download", exact=True).click()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="JSON lines, base64").click()
        path = tmp_path / "from.jsonl"
        await (await download.value).save_as(path)
    assert len(path.read_text().splitlines()) == 1201
    async with console.at("/topics/to/produce") as page:
        many = form(page, "Many records")
        await many.get_by_label("Keys and values are").select_option("BINARY")
        await many.get_by_label("Keep the partitions").check()
        await many.get_by_label("Or from a file").set_input_files(path)
        await many.get_by_role("button", name="Produce 1,201 records").click()
        await expect(page.get_by_text("1,201 records written to to.")).to_be_visible()
    for partition in range(2):
        count = 600 + (partition == 0)
        assert records_of(broker, "to", count, partition) == records_of(broker, "from", count, partition)


async def test_records_that_the_broker_refuses_are_named(console, broker):
    broker.create_topic("small", configs={"max.message.bytes": "300"})
    async with console.at("/topics/small/produce") as page:
        many = form(page, "Many records")
        await many.get_by_label("Format").select_option("value")
        await many.get_by_label("Records").fill("\n".join([*["short"] * 500, "long" * 100]))
        await many.get_by_role("button", name="Produce 501 records").click()
        await expect(many).to_contain_text("1 record not written:")
        await expect(many).to_contain_text("line 501:")


async def test_who_may_only_look_is_told(console, broker):
    broker.create_topic("looked-at")

    async def read_only(route):
        answer = await route.fetch()
        await route.fulfill(response=answer, json=await answer.json() | {"may_change": False})

    async with console.at("/topics") as page:
        await page.route("**/api/v1/session", read_only)
        await page.goto(f"{console.rest.url}/topics/looked-at/produce")
        await expect(page.get_by_text("You may look at this topic, but not write to it.")).to_be_visible()
        await expect(form(page).get_by_role("button", name="Produce", exact=True)).to_be_disabled()
        await expect(form(page, "Many records").get_by_role("button", name="Produce")).to_be_disabled()

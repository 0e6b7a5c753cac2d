"""The pages of transactions in a browser."""

import asyncio
import re

import confluent_kafka
import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.producer.producer import Producer
from support.console_pages import LOOKS, accessibility_problems, overflow
from support.deadlines import DEADLINE_S
from support.hanging import write_hanging

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def broker_settings():
    return {"transaction.partition.verification.enable": "false"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def producer(broker):
    """A transaction that stays open."""
    servers = broker.bootstrap_servers
    async with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(transactional_id="billing", transaction_timeout_ms=900_000, bootstrap_servers=servers) as running,
    ):
        await admin.create_topic("orders", partitions=2)
        await running.begin_transaction()
        await running.send("orders", b"first", partition=0)
        await running.flush()
        yield running
        await running.abort_transaction()


@pytest.mark.parametrize("look", LOOKS)
async def test_an_open_transaction_is_listed_and_described(console, producer, look):
    async with console.at("/transactions", **LOOKS[look]) as page:
        row = page.get_by_role("row", name=re.compile("billing"))
        await expect(row).to_contain_text("Ongoing")
        await expect(page.get_by_text(re.compile(r"None in \d+ partitions"))).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await page.get_by_label("State").select_option("Ongoing")
        await expect(page).to_have_url(re.compile("state=Ongoing"))
        await row.get_by_role("link", name="billing").click()
        await expect(page.get_by_role("heading", name="billing")).to_be_visible()
        await expect(page.get_by_role("row", name=re.compile("orders-0"))).to_contain_text("1")
        await expect(page.get_by_text("the coordinator aborts it 15 min after its start")).to_be_visible()
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


def librdkafka_producer(servers, transactional_id, topic):
    """A producer of librdkafka with one committed record, and one in an open transaction."""
    made = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    made.init_transactions(DEADLINE_S)
    for value in (b"kept", b"lost"):
        made.begin_transaction()
        made.produce(topic, value, partition=0)
        if value == b"kept":
            made.commit_transaction(DEADLINE_S)
    made.flush(DEADLINE_S)
    return made


def committed_values(servers, topic):
    """The last stable offset, and what a consumer of librdkafka with read_committed reads up to it."""
    options = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers} | options)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values = []
        while not (message := consumer.poll(DEADLINE_S)).error():
            values.append(message.value())
        assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
        return message.offset(), values
    finally:
        consumer.close()


@pytest.mark.parametrize("look", LOOKS)
async def test_an_ongoing_transaction_is_explained_and_aborted(console, broker, look):
    servers, name = broker.bootstrap_servers, f"shipping-{look}"
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(name, partitions=1)
        producer = await asyncio.to_thread(librdkafka_producer, servers, name, name)
        found = await admin.describe_transaction(name)
    assert await asyncio.to_thread(committed_values, servers, name) == (2, [b"kept"])
    async with console.at(f"/transactions/{name}", **LOOKS[look]) as page:
        await page.get_by_role("button", name="Abort…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("heading")).to_have_text(f"Abort the transaction of {name}?")
        fenced = f"fences producer {found.producer_id} (epoch {found.producer_epoch})"
        await expect(dialog).to_contain_text(f"{fenced} and aborts its transaction in {name}-0.")
        await expect(dialog).to_contain_text("its next call fails (PRODUCER_FENCED)")
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(page.get_by_text("the coordinator aborts it 1 min after its start")).to_be_visible()
        await page.get_by_role("button", name="Abort…").click()
        await dialog.get_by_role("button", name="Abort the transaction").click()
        await expect(
            page.get_by_text(f"The transaction of {name} is aborted, and its producer is fenced.")
        ).to_be_visible()
        await expect(page.get_by_text("No transaction is open.")).to_be_visible()
        await expect(page.get_by_role("button", name="Abort…")).to_be_disabled()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        await asyncio.to_thread(producer.commit_transaction, DEADLINE_S)
    assert caught.value.args[0].fatal()
    assert await asyncio.to_thread(committed_values, servers, name) == (4, [b"kept"])


async def test_a_transaction_that_ends_meanwhile_is_not_aborted(console, broker, producer):
    async with (
        Producer(transactional_id="quick", bootstrap_servers=broker.bootstrap_servers) as quick,
        console.at("/transactions/quick", allowed_error="409") as page,
    ):
        await expect(page.get_by_role("button", name="Abort…")).to_be_disabled()
        await quick.begin_transaction()
        await quick.send("orders", b"kept", partition=0)
        await quick.flush()
        await page.get_by_role("button", name="Abort…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("aborts its transaction in orders-0")
        await quick.commit_transaction()
        await dialog.get_by_role("button", name="Abort the transaction").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("quick has no open transaction")


async def test_a_hanging_transaction_is_explained_and_aborted(console, broker, producer):
    await write_hanging(broker.bootstrap_servers, "orders", 1)
    async with console.at("/transactions") as page:
        await page.get_by_role("button", name="Abort…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("appends an abort marker for producer 4711 (epoch 3)")
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Abort the transaction").click()
        await expect(page.get_by_text("The transaction is aborted in")).to_be_visible()
        await expect(page.get_by_text(re.compile(r"None in \d+ partitions"))).to_be_visible()

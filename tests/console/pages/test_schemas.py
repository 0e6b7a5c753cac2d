"""Records with a schema in the tab Messages: decoded, with the text of the schema."""

import json

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from client.producer.producer import Producer
from client.schemas.avro import AvroCodec
from client.schemas.wire_format import frame
from console.decoding.schema_cache import SchemaCache
from support.console_pages import LOOKS, accessibility_problems, console_pages, overflow
from support.schema_registry import RegistryThread

pytestmark = pytest.mark.asyncio(loop_scope="session")
SCHEMA = json.dumps({"type": "record", "name": "Letter", "fields": [{"name": "to", "type": "string"}]})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def letters(browser, broker):
    """A console with a schema registry, and a topic with a record whose schema it has and one whose it has not."""
    with RegistryThread() as registry:
        number = registry.register("letters-value", SCHEMA)
        value = frame(number, AvroCodec(SCHEMA).encode({"to": "Milena"}, is_framed=True))
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("letters")
            await producer.send("letters", value)
            await producer.send("letters", frame(4711, b"abcd"))
        async with console_pages(browser, servers, SchemaCache([registry.url])) as pages:
            yield pages


@pytest.mark.parametrize("look", LOOKS)
async def test_a_record_and_its_schema(letters, look):
    async with letters.at("/topics/letters/messages?record=0:0", **LOOKS[look]) as page:
        await expect(page.locator(".records tbody tr").last).to_contain_text('{"to":"Milena"}')
        panel = page.get_by_role("complementary", name="Record")
        await expect(panel.locator(".tree")).to_contain_text('to: "Milena"')
        await expect(panel).to_contain_text("registry")
        await panel.get_by_text("Schema 1 (AVRO)").click()
        await expect(panel).to_contain_text("letters-value, version 1")
        await expect(panel.get_by_label("Text of the schema")).to_contain_text('"name": "Letter"')
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_the_decoder_is_chosen(letters):
    async with letters.at("/topics/letters/messages?record=0:1") as page:
        panel = page.get_by_role("complementary", name="Record")
        await expect(panel.locator("pre")).to_have_text("00 00 00 12 67 61 62 63 64")
        await expect(panel.locator(".notice")).to_have_count(0)
        await page.get_by_label("Value as").select_option("registry")
        await page.get_by_role("button", name="Show", exact=True).click()
        await page.get_by_role("link", name="1", exact=True).click()
        await expect(panel.locator(".notice")).to_contain_text("has no schema with the id 4711")

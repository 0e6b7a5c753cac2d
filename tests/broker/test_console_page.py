"""The page in a real browser, against a real broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.broker import Broker
from broker.first_commands import first_commands
from client.admin import Admin
from client.consumer import Consumer
from client.producer import Producer
from support.broker import BrokerProcess, running_broker
from support.browser import Browser, browser, require_browser

STATE = "return document.getElementById('state').textContent === arguments[0]"
NAMES = "return [...document.querySelectorAll('#topics > tbody:not([hidden]) .name')].map((one) => one.textContent)"
# Text of the visible cells of the row of a topic or a group.
ROW = """
const body = [...document.querySelectorAll('.opening > tbody')]
  .find((one) => one.querySelector('.name').textContent === arguments[0]);
return body && [...body.rows[0].cells].filter((one) => one.offsetParent).map((one) => one.innerText.trim());
"""
PARTITIONS = """
return [...document.querySelectorAll('.partitions tbody tr')].filter((one) => one.offsetParent)
  .map((row) => [...row.cells].map((one) => one.textContent))
"""
TOGGLE = """
[...document.querySelectorAll('.opening button')].find((one) => one.textContent === arguments[0]).click()
"""


@asynccontextmanager
async def page(tmp_path: Path) -> AsyncIterator[tuple[Broker, Browser]]:
    require_browser()
    async with (
        running_broker(tmp_path / "data", ottla_console_listener="127.0.0.1:0") as broker,
        browser(tmp_path / "profile") as chromium,
    ):
        assert broker.console is not None
        await chromium.open(f"http://127.0.0.1:{broker.console.port}/")
        await chromium.wait_for(STATE, "Ready")
        yield broker, chromium
        assert await chromium.problems() == []


async def test_page_from_the_first_topic_to_messages(tmp_path: Path) -> None:
    async with page(tmp_path) as (broker, chromium):
        servers = broker.bootstrap_servers
        commands = await chromium.run(
            "return [...document.querySelectorAll('#commands li')].map((one) => one.textContent)"
        )
        assert commands == first_commands(servers)
        assert await chromium.run("return document.getElementById('topics').offsetParent === null")
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", 2)
            await chromium.wait_for(f"{NAMES}.includes('orders')")
            assert await chromium.run("return document.getElementById('empty').hidden")
            assert (await chromium.run(ROW, "orders"))[:3] == ["orders", "2", "0"]

            await chromium.run(TOGGLE, "orders")
            button = "document.querySelector('#topics button')"
            assert await chromium.run(f"return {button}.getAttribute('aria-expanded')") == "true"
            assert await chromium.run(f"return !document.getElementById({button}.getAttribute('aria-controls')).hidden")
            assert await chromium.run(PARTITIONS) == [[number, "0", "0", "0", "0 B", "0", "0", "0"] for number in "01"]

            # What is on the page stays the same nodes: nothing flickers, nothing closes.
            await chromium.run("document.querySelector('#topics > tbody').dataset.mark = 'kept'")
            for number in range(1500):
                producer.send_nowait("orders", partition=1, value=b"%d" % number)
            await producer.flush()
            rows = await chromium.wait_for(
                f"const rows = (() => {{{PARTITIONS}}})(); return rows[1][3] === '1,500' && rows"
            )
            assert rows[0][:4] == ["0", "0", "0", "0"]
            assert rows[1][:4] == ["1", "0", "1,500", "1,500"]
            assert rows[1][4].endswith("KiB")
            assert rows[1][5:] == ["0", "0", "0"]
            assert (await chromium.run(ROW, "orders"))[2] == "1,500"
            assert await chromium.run("return document.querySelector('#topics > tbody').dataset.mark") == "kept"
            await chromium.wait_for("return document.querySelector('#rates .value').textContent !== '–'")

            await chromium.run(TOGGLE, "orders")
            assert await chromium.run(PARTITIONS) == []

            await admin.delete_topic("orders")
            await chromium.wait_for("return !document.getElementById('empty').hidden")
            assert await chromium.run(NAMES) == []


async def test_page_fits_a_desktop_and_a_phone(tmp_path: Path) -> None:
    async with page(tmp_path) as (broker, chromium):
        long_name = "a-topic-with-quite-a-name." + "x" * 120
        overflow = "return [document.documentElement.scrollWidth, window.innerWidth]"
        await chromium.view(390, 844)
        assert await chromium.run(overflow) == [390, 390]
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name in (long_name, "orders"):
                await admin.create_topic(name, 3)
        await chromium.wait_for(f"{NAMES}.length === 2")
        await chromium.run("document.querySelectorAll('#topics button').forEach((one) => one.click())")
        for width, cells in ((390, 3), (1280, 6)):
            await chromium.view(width, 844)
            assert await chromium.run(overflow) == [width, width]
            assert len(await chromium.run(ROW, "orders")) == cells
            assert len(await chromium.run(PARTITIONS)) == 6
        background = "return getComputedStyle(document.documentElement).backgroundColor"
        await chromium.view(1280, 844, "light")
        light = await chromium.run(background)
        await chromium.view(1280, 844, "dark")
        assert await chromium.run(background) != light


async def test_groups_open_to_show_their_offsets(tmp_path: Path) -> None:
    async with page(tmp_path) as (broker, chromium):
        servers = broker.bootstrap_servers
        shown = "return document.getElementById('groups-section').offsetParent !== null"
        assert not await chromium.run(shown)
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", 2)
            for _ in range(5):
                await producer.send("orders", partition=1, value=b"v")
            options = {"group_id": "billing", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
            async with Consumer("orders", bootstrap_servers=servers, **options) as consumer:
                await consumer.getmany(max_records=3)
                await consumer.commit()
                await chromium.wait_for(f"return (() => {{{ROW}}})()?.[1] === 'Stable'", "billing")
                assert await chromium.run(ROW, "billing") == ["billing", "Stable", "1", "2", "2"]
                await chromium.run(TOGGLE, "billing")
                assert await chromium.run(PARTITIONS) == [["orders-0", "0", "0", "0"], ["orders-1", "3", "5", "2"]]
            await chromium.wait_for(f"return (() => {{{ROW}}})()[1] === 'Empty'", "billing")
            await chromium.view(390, 844)
            assert await chromium.run(ROW, "billing") == ["billing\nEmpty, 0 members", "2"]
            await producer.send("orders", partition=0, value=b"v")
            await chromium.wait_for(f"return (() => {{{PARTITIONS}}})()[0][3] === '1'")
            await admin.delete_groups(["billing"])
            await chromium.wait_for(f"return !(() => {{{shown}}})()")


async def test_topics_can_be_filtered_by_name(tmp_path: Path) -> None:
    async with page(tmp_path) as (broker, chromium):
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for number in range(8):
                await admin.create_topic(f"topic-{number}", 1)
        await chromium.wait_for(f"{NAMES}.length === 8")
        script = """
        const filter = document.getElementById('filter');
        filter.value = arguments[0];
        filter.dispatchEvent(new Event('input'));
        """
        await chromium.run(script, "IC-3")
        assert await chromium.run(NAMES) == ["topic-3"]
        await chromium.run(script, "nothing")
        assert await chromium.run(NAMES) == []
        assert await chromium.run("return !document.getElementById('no-match').hidden")
        await chromium.run(script, "")
        assert len(await chromium.run(NAMES)) == 8


async def test_page_says_when_the_broker_stops_answering_and_when_it_is_back(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    require_browser()
    with BrokerProcess(tmp_path / "data", {"ottla.console.listener": f"127.0.0.1:{unused_tcp_port}"}) as process:
        async with Admin(bootstrap_servers=process.bootstrap) as admin:
            await admin.create_topic("orders", 1)
        async with browser(tmp_path / "profile") as chromium:
            await chromium.open(f"http://127.0.0.1:{unused_tcp_port}/")
            await chromium.wait_for(STATE, "Ready")
            process.kill()
            await chromium.wait_for(STATE, "No answer")
            notice = await chromium.run("return document.getElementById('notice').innerText")
            assert notice.startswith("The broker does not answer. Last answer at ")
            assert await chromium.run(NAMES) == ["orders"]  # what was known stays to be read
            process.start()
            await chromium.wait_for(STATE, "Ready")
            await chromium.wait_for("return document.getElementById('notice').hidden")
            assert await chromium.run(NAMES) == ["orders"]

"""What the console costs, and how fast its pages are.

    python -m benchmarks.console                        # about five minutes
    python -m benchmarks.console --parts idle first     # some parts

Parts: `size` of scripts and styles; `idle`: a broker whose console nobody looks at; `first`: the first page after a
cold start; `topics`: the list of many topics; `newest`: the newest messages of a large topic; `tail`: a live tail
beside a producer. Pages are drawn in a headless Chromium (playwright; OTTLA_CHROMIUM names the program). The limits are
those of the issue that asked for the console.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
from playwright.async_api import Browser, async_playwright

from benchmarks.librdkafka import Messages, Producer
from benchmarks.server import ROOT, Ottla, directory, free_port
from build_backend.assets import is_asset, minified
from client.admin.admin import Admin
from client.admin.types import NewTopic

IDLE_S = 20.0
ROUNDS = 5
SIZE = 100
TAIL_RATE = 20_000
TAIL_S = 10.0
TICK_S = 0.01
START_S = 60.0
"""How long a console may take until it listens."""


WHEN_DRAWN = """
window.drawn = new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (document.querySelector("h1")?.textContent !== "Overview") return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  }).observe(document, { childList: true, subtree: true });
});
"""
"""Milliseconds from the begin of the navigation, by the browser's clock, until the overview has been drawn."""


class WithConsole(Ottla):
    """A broker with a console on a free port."""

    name = "ottla-console"

    def __init__(self, base: Path | None = None) -> None:
        super().__init__(base)
        self.console_port = free_port()
        self.url = f"http://127.0.0.1:{self.console_port}"

    def command(self) -> list[str]:
        return [*super().command(), "--set", f"ottla.console.listener=127.0.0.1:{self.console_port}"]


def print_row(name: str, found: str, limit: str = "") -> None:
    """Print one line of the table."""
    print(f"| {name} | {found} | {limit} |", flush=True)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser."""
    names = (os.environ.get("OTTLA_CHROMIUM", ""), "chromium-headless-shell", "chromium", "google-chrome")
    program = next((path for one in names if one and (path := shutil.which(one))), None)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--disable-gpu", "--disable-quic"])
        try:
            yield browser
        finally:
            await browser.close()


def is_listening(port: int) -> bool:
    """Return whether a socket of this machine listens on a port (Linux)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


async def until_listening(url: str) -> None:
    """Wait until the console's socket exists, without a request: the first one is measured."""
    port = int(url.rpartition(":")[2])
    deadline = time.monotonic() + START_S
    while True:
        if is_listening(port):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing listens on {url}")
        await asyncio.sleep(0.002)


# -- the parts ---------------------------------------------------------------------------------------------------------


async def size() -> None:
    """Count the bytes of scripts and styles, and of those that the first page loads."""
    files = [path for path in (ROOT / "console" / "static").rglob("*") if is_asset(path.name)]
    async with chromium() as browser:
        with WithConsole(directory()) as server:
            await until_listening(server.url)
            page = await browser.new_page()
            loaded: set[str] = set()
            page.on("request", lambda request: loaded.add(request.url))
            await page.goto(server.url)
            await page.get_by_role("heading", name="Overview").wait_for()
    of_first = [
        path
        for path in files
        if any(one.endswith(f"/static/{relative(path)}") for one in loaded) or path.suffix == ".css"
    ]  # the stylesheets are loaded as one
    for name, some in (("all pages", files), ("the first page", of_first)):
        plain = sum(path.stat().st_size for path in some)
        small = sum(len(minified(path.read_bytes(), path.name)) for path in some)
        found = f"{small / 1000:.0f} KB in the wheel, {plain / 1000:.0f} KB in a clone; {len(some)} files"
        print_row(f"scripts and styles of {name}, uncompressed", found, "200 KB")


def relative(path: Path) -> str:
    """Return the path of a file below `static`."""
    return path.relative_to(ROOT / "console" / "static").as_posix()


async def idle() -> None:
    """Measure a broker with a console that nobody looks at, beside one without a console."""
    for kind in (Ottla, WithConsole):
        memory, cpu = [], []
        for _ in range(3):
            with kind(directory()) as server:
                await asyncio.sleep(5)
                before = server.cpu_seconds()
                await asyncio.sleep(IDLE_S)
                cpu.append(1000 * (server.cpu_seconds() - before) / IDLE_S)
                memory.append(server.rss_bytes() / 1e6)
        found = f"{statistics.median(memory):.1f} MB, {statistics.median(cpu):.2f} ms CPU a second"
        print_row(f"idle broker, {'with' if kind is WithConsole else 'without'} console", found, "no more with it")


async def first() -> None:
    """Measure the first page of a broker that nobody has looked at."""
    rounds, cpu = [], []
    async with chromium() as browser:
        for _ in range(ROUNDS):
            with WithConsole(directory()) as server:
                await until_listening(server.url)
                page = await browser.new_page()
                await page.goto("about:blank")
                await page.add_init_script(WHEN_DRAWN)
                used = server.cpu_seconds()
                await page.goto(server.url, wait_until="commit")
                await page.get_by_role("heading", name="Overview").wait_for()
                rounds.append(await page.evaluate("window.drawn"))
                cpu.append(1000 * (server.cpu_seconds() - used))
                await page.close()
    found = f"{statistics.median(rounds):.0f} ms, the fastest {min(rounds):.0f} ms"
    found += f"; CPU of the broker {statistics.median(cpu):.0f} ms"
    print_row("first page after a cold start, usable", found, "300 ms")


async def topics(count: int) -> None:
    """Measure the list of many topics: the server's answer, and the page."""
    with WithConsole(directory()) as server:
        await until_listening(server.url)
        async with Admin(bootstrap_servers=server.bootstrap, default_api_timeout_ms=600_000) as admin:
            for start in range(0, count, 500):
                names = [f"topic-{number:05}" for number in range(start, min(start + 500, count))]
                await admin.create_topics([NewTopic(name, 1, 1) for name in names])
        async with aiohttp.ClientSession(server.url) as http:
            await body(http, "/api/v1/topics")
            used = server.cpu_seconds()
            answered = await median_ms(lambda: body(http, "/api/v1/topics"))
            cpu = 1000 * (server.cpu_seconds() - used) / (ROUNDS + 1)
        rounds = []
        async with chromium() as browser:
            page = await browser.new_page()
            await page.goto(f"{server.url}/api-docs")
            await page.get_by_role("heading", name="REST API").wait_for()
            for _ in range(ROUNDS):
                begin = time.monotonic()
                await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics").click()
                await page.get_by_role("link", name="topic-00000", exact=True).wait_for()
                rounds.append(1000 * (time.monotonic() - begin))
                await page.get_by_role("link", name="API", exact=True).click()
                await page.get_by_role("heading", name="REST API").wait_for()
    print_row(f"{count:,} topics, the server's answer", f"{answered:.0f} ms; CPU of the broker {cpu:.0f} ms", "")
    print_row(f"{count:,} topics, from the click until drawn", f"{statistics.median(rounds):.0f} ms", "500 ms")


async def newest(count: int) -> None:
    """Measure the newest 50 messages of a large topic."""
    with WithConsole(directory()) as server:
        await until_listening(server.url)
        server.create_topic("large", 1)
        await asyncio.to_thread(produce, server.bootstrap, "large", count)
        async with aiohttp.ClientSession(server.url) as http:
            path = "/api/v1/topics/large/records?from=newest&limit=50"
            found = await median_ms(lambda: body(http, path))
    print_row(f"newest 50 of {count:,} records", f"{found:.0f} ms", "150 ms")


async def tail() -> None:
    """Measure the CPU of a produce request with and without a live tail, in the broker and in a process of its own."""
    for name, is_own in (("the console of the broker", False), ("`ottla console`", True)):
        with WithConsole(directory()) as server:
            await until_listening(server.url)
            server.create_topic("live", 1)
            url = server.url
            process = None
            if is_own:
                port = free_port()
                url = f"http://127.0.0.1:{port}"
                program = [sys.executable, "-m", "ottla", "console", "--listen", f"127.0.0.1:{port}"]
                process = await asyncio.create_subprocess_exec(
                    *program, "--bootstrap-server", server.bootstrap, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL
                )
                await until_listening(url)
            try:
                without, watched = [], []
                for _ in range(3):
                    without.append(await cpu_of_load(server))
                    async with tailing(url):
                        watched.append(await cpu_of_load(server))
            finally:
                if process is not None:
                    process.terminate()
                    await process.wait()
        before, after = statistics.median(without), statistics.median(watched)
        more = 100 * (after / before - 1)
        print_row(
            f"broker's CPU for {TAIL_RATE:,} records a second, tailed in {name}",
            f"{before:.1f} → {after:.1f} ms a second ({more:+.0f} %)",
            "+5 %",
        )


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[None]]] = {
    "size": lambda _: size(),
    "idle": lambda _: idle(),
    "first": lambda _: first(),
    "topics": lambda given: topics(given.topics),
    "newest": lambda given: newest(given.records),
    "tail": lambda _: tail(),
}

# -- load --------------------------------------------------------------------------------------------------------------


async def body(http: aiohttp.ClientSession, path: str) -> bytes:
    """Return the body of an answer."""
    async with http.get(path) as response:
        response.raise_for_status()
        return await response.read()


async def median_ms(ask: Callable[[], Awaitable[object]]) -> float:
    """Return the median time of a question, without the first one, which opens connections."""
    await ask()
    rounds = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        await ask()
        rounds.append(1000 * (time.monotonic() - begin))
    return statistics.median(rounds)


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Produce records as fast as librdkafka can."""
    at_once = 100_000
    messages = Messages(os.urandom(SIZE * 1000), SIZE, at_once, 1)
    producer = Producer(topic, {"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    for _ in range(count // at_once):
        producer.produce(messages, at_once)
    producer.flush()
    producer.close()


def produce_steadily(bootstrap: str, topic: str) -> None:
    """Produce TAIL_RATE records a second for TAIL_S."""
    at_once = int(TAIL_RATE * TICK_S)
    messages = Messages(os.urandom(SIZE * 100), SIZE, at_once, 1)
    producer = Producer(topic, {"bootstrap.servers": bootstrap, "linger.ms": 5})
    begin = time.monotonic()
    for number in range(int(TAIL_S / TICK_S)):
        time.sleep(max(0.0, begin + number * TICK_S - time.monotonic()))
        producer.produce(messages, at_once)
    producer.flush()
    producer.close()


async def cpu_of_load(server: WithConsole) -> float:
    """Return the broker's CPU time in ms for each second of steady load."""
    before = server.cpu_seconds()
    await asyncio.to_thread(produce_steadily, server.bootstrap, "live")
    return 1000 * (server.cpu_seconds() - before) / TAIL_S


@asynccontextmanager
async def tailing(url: str) -> AsyncIterator[None]:
    """Follow the topic as a page does."""
    started = asyncio.Event()

    async def follow() -> None:
        endless = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(url, timeout=endless) as http,
            http.get("/api/v1/topics/live/records:tail") as response,
        ):
            response.raise_for_status()
            started.set()
            async for _ in response.content.iter_any():
                pass

    following = asyncio.create_task(follow())
    begun = asyncio.create_task(started.wait())
    await asyncio.wait([following, begun], return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    if following.done():
        following.result()
    try:
        yield
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What the console costs, and how fast its pages are.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=10_000_000)
    given = parser.parse_args()
    print("| | measured | limit |")
    print("| --- | ---: | ---: |")
    for part in given.parts:
        await PARTS[part](given)


if __name__ == "__main__":
    asyncio.run(main())

"""A headless Chromium, driven by Playwright, in the event loop of the broker that it looks at."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, Route, async_playwright, expect
from playwright.async_api import Error as PlaywrightError

from support.certificates import Issued
from support.deadlines import DEADLINE_MS
from support.programs import need_chromium

expect.set_options(timeout=DEADLINE_MS)

LONGEST_DELAYS_S = (0, 0.05, 0.15, 1.2)
"""In `make test-perturbed`, each request of a page is delayed by up to one of these, chosen at random."""


@asynccontextmanager
async def chromium(trusted: Issued | None = None) -> AsyncIterator[Browser]:
    """A browser; skips the test where there is none (see need_chromium).

    trusted: a server's certificate. With Playwright's `ignore_https_errors`, Chromium connects again after each error,
    and a request may meet the certificate of another new connection each time, until net::ERR_TOO_MANY_RETRIES.
    """
    program = need_chromium()
    # With this limit, Chromium starts no process for a page that may come after this one: an eighth of a page's CPU.
    arguments = ["--disable-gpu", "--disable-quic", "--renderer-process-limit=1"]
    if trusted is not None:
        arguments.append(f"--ignore-certificate-errors-spki-list={trusted.key_hash}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(
    browser: Browser, url: str, *, allowed_error: str | None = None, **options: Any
) -> AsyncIterator[Page]:
    """The page at a URL, with cookies and a cache of its own. It must log no error and raise no exception.

    allowed_error: errors with this text may be logged. options: of Browser.new_context.
    """
    problems = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not (allowed_error and allowed_error in message.text):
            problems.append(f"{message.location['url']}: {message.text}")

    context = await browser.new_context(**options)
    try:
        if seed := os.environ.get("OTTLA_PERTURB"):
            await context.route("**/*", _late(random.Random(f"{seed} {url}")))
        page = await context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(url)
        yield page
        assert not problems, problems
    finally:
        await context.close()


def _late(rng: random.Random) -> Callable[[Route], Awaitable[None]]:
    async def send_later(route: Route) -> None:
        await asyncio.sleep(rng.uniform(0, rng.choice(LONGEST_DELAYS_S)))
        with suppress(PlaywrightError):  # the page has been closed
            await route.continue_()

    return send_later

"""A headless Chromium, driven by Playwright, in the event loop of the broker that it looks at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from support.deadlines import DEADLINE_S
from support.programs import need_chromium

expect.set_options(timeout=1000 * DEADLINE_S)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser; skips the test where there is none (see need_chromium)."""
    program = need_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--disable-gpu", "--disable-quic"])
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
            problems.append(message.text)

    context = await browser.new_context(**options)
    try:
        page = await context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(url)
        yield page
        assert problems == []
    finally:
        await context.close()

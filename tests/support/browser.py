"""A headless Chromium, driven by Playwright, in the event loop of the broker that it looks at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from support.certificates import Issued
from support.deadlines import DEADLINE_S
from support.programs import need_chromium

expect.set_options(timeout=1000 * DEADLINE_S)


@asynccontextmanager
async def chromium(trusted: Issued | None = None) -> AsyncIterator[Browser]:
    """A browser; skips the test where there is none (see need_chromium).

    trusted: a server's certificate. With Playwright's `ignore_https_errors`, Chromium connects again after each error,
    and a request may meet the certificate of another new connection each time, until net::ERR_TOO_MANY_RETRIES.
    """
    program = need_chromium()
    arguments = ["--disable-gpu", "--disable-quic"]
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
        page = await context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(url)
        yield page
        assert not problems, problems
    finally:
        await context.close()

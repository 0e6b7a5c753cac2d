"""The console's pages in a browser: a console for a broker, and pages that must be accessible and log no error."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, Page

from console.decoding.schema_cache import SchemaCache
from support.browser import opened
from support.rest import Rest, rest_api

DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 844}}
DARK: dict[str, Any] = DESKTOP | {"color_scheme": "dark"}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
LOOKS = {"desktop": DESKTOP, "phone": PHONE}
"""Dark is only colours: `accessibility_problems` looks at both."""
ALL_RULES: dict[str, Any] = {"reporter": "no-passes", "preload": False}
"""Axe's own choice of rules, without those that load a style sheet or a video first."""
COLOURS: dict[str, Any] = {"runOnly": ["color-contrast"]} | ALL_RULES
REPEATED = ":is(tr, li, details):nth-child(n + 12)"
"""What axe does not look at: all 260 settings of a broker are made as the first ones are, and take it two seconds."""
RUN_AXE = f"(options) => axe.run({{ exclude: [{REPEATED!r}] }}, options)"


class ConsolePages:
    """A console and a browser."""

    def __init__(self, browser: Browser, rest: Rest) -> None:
        self._browser = browser
        self.rest = rest
        """Its REST API."""

    @contextlib.asynccontextmanager
    async def at(self, path: str, *, allowed_error: str | None = None, **options: Any) -> AsyncIterator[Page]:
        """A page of the console, in a browser window of its own. See `support.browser.opened`."""
        url = self.rest.url + path
        async with opened(self._browser, url, allowed_error=allowed_error, **(DESKTOP | options)) as page:
            yield page


@contextlib.asynccontextmanager
async def console_pages(
    browser: Browser, bootstrap_servers: str, schemas: SchemaCache | None = None
) -> AsyncIterator[ConsolePages]:
    """The console of `ottla console` for a cluster."""
    async with rest_api(bootstrap_servers, schemas) as rest:
        yield ConsolePages(browser, rest)


async def accessibility_problems(page: Page) -> list[str]:
    """What axe finds on a page that is serious or critical, with light colours and with dark ones: rule and element."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_SCRIPT)
    light = await page.evaluate(RUN_AXE, ALL_RULES)
    await page.emulate_media(color_scheme="dark")
    dark = await page.evaluate(RUN_AXE, COLOURS)
    await page.emulate_media(color_scheme="light")
    return [
        f"{colours}, {one['id']}: {one['help']}: {[node['html'] for node in one['nodes']][:3]}"
        for colours, found in (("light", light), ("dark", dark))
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


async def overflow(page: Page) -> int:
    """Pixels by which a page is wider than the window as it was opened.

    The browser of a phone widens its window (`window.innerWidth`) with what it shows.
    """
    assert page.viewport_size
    width: int = await page.evaluate("document.documentElement.scrollWidth")
    return width - page.viewport_size["width"]


async def cramped(page: Page) -> list[str]:
    """What is hard to read in the tables of a page: words on two lines, and cells whose content runs out of them.

    Only words of more than thirty letters, longer than all names of Kafka's APIs, may be on two lines.
    """
    found: list[str] = await page.evaluate("""() => {
        const found = [];
        for (const cell of document.querySelectorAll("tbody :is(th, td)")) {
            if (cell.scrollWidth > cell.clientWidth) found.push(cell.textContent);
            const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                for (const { 0: word, index } of texts.currentNode.data.matchAll(/[A-Za-z0-9]+/g)) {
                    const range = document.createRange();
                    range.setStart(texts.currentNode, index);
                    range.setEnd(texts.currentNode, index + word.length);
                    const lines = new Set([...range.getClientRects()].map((one) => one.top));
                    if (lines.size > 1 && word.length <= 30) found.push(word);
                }
            }
        }
        return found;
    }""")
    return found

"""The pictures of docs/console.md: `make screenshots` writes docs/console/*.png from the demo cluster.

A page gets a row in PICTURES. With names as arguments, only these pictures are made.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, NamedTuple

from playwright.async_api import Browser, expect

from support.broker import ROOT
from support.browser import chromium, opened
from support.console_demo import Demo, demo
from support.console_pages import DARK, DESKTOP, PHONE

FOLDER = ROOT / "docs" / "console"
MAX_BYTES = 150_000
TALL: dict[str, Any] = {"viewport": {"width": 1280, "height": 1010}}
OF_ORDERS = "topic=orders&partition=0"
TALLER: dict[str, Any] = {"viewport": {"width": 1280, "height": 1040}}


class Picture(NamedTuple):
    """One picture: the file's name, the path of the page, a text that the complete page has, and the look."""

    name: str
    path: str
    text: str
    look: dict[str, Any] = DESKTOP
    console: str = "url"
    """The field of Demo with the URL: `own_url` is that of broker 1, which knows its inside."""


PICTURES = (
    Picture("overview", "/", "billing", TALL),
    Picture("overview-dark", "/", "billing", DARK | TALL),
    Picture("overview-phone", "/", "billing", PHONE),
    Picture("brokers", "/brokers", "controller"),
    Picture("broker", "/brokers/1?q=retention", "log.retention.ms"),
    Picture("broker-log-dirs", "/brokers/1/log-dirs", "orders-0"),
    Picture("broker-statistics", "/brokers/1/statistics", "Produce", console="own_url"),
    Picture("broker-partitions", "/brokers/1/partitions", "leader"),
    Picture("broker-apis", "/brokers/1/apis", "ListOffsets"),
    Picture("broker-log-levels", "/brokers/1/log-levels?q=broker.co", "broker.controller"),
    Picture("broker-phone", "/brokers/1?q=retention", "log.retention.ms", PHONE),
    Picture("transactions", "/transactions", "None in"),
    Picture("transaction", "/transactions/payments-3", "payments-1"),
    Picture("topics", "/topics", "KiB"),
    Picture("topic-partitions", "/topics/orders/partitions", "KiB"),
    Picture("topic-consumers", "/topics/orders/consumers", "billing"),
    Picture("topic-danger", "/topics/orders/danger", "Delete this topic"),
    Picture("topic-configuration", "/topics/customers/configuration?q=retention", "retention.ms", DARK),
    Picture("messages", "/topics/orders/messages?record=0:3", "records of about", TALL),
    Picture("produce", "/topics/orders/produce?resend=0:3", "A copy of record 3", TALL),
    Picture("groups", "/groups?sort=-lag", "billing"),
    Picture("group", "/groups/billing", "billing-2"),
    Picture("group-lag", "/groups/shipping/lag", "with the largest lag"),
    Picture("group-timeline", "/groups/billing/timeline", "was there from"),
    Picture("group-reset", "/groups/shipping/reset", "Nothing is changed before"),
    Picture("security-users", "/security", "reports"),
    Picture("security-quotas", "/security/quotas", "shop"),
    Picture("security-acls", "/security/acls", "User:reports"),
    Picture("security-tokens", "/security/tokens", "User:reports", console="tokens_url"),
    Picture(
        "inside-registry", "/inside/registry?path=/brokers/ids/1", "A live broker with its listeners", console="own_url"
    ),
    Picture("inside-storage", f"/inside/storage?{OF_ORDERS}&offset=40&step=3", "Step 3 of", TALLER, console="own_url"),
    Picture("inside-replication", f"/inside/replication?{OF_ORDERS}", "Write and follow", console="leader_url"),
    Picture("inside-groups", "/inside/groups?group=billing", "is a member", console="coordinator_url"),
    Picture("api", "/api-docs", "/api/v1/overview"),
)


async def take(browser: Browser, shown: Demo, picture: Picture) -> int:
    """Write one picture; return its size in bytes."""
    url = getattr(shown, picture.console) + picture.path
    async with opened(browser, url, **(picture.look | {"locale": "en-GB", "timezone_id": "Europe/Prague"})) as page:
        await expect(page.get_by_role("main").get_by_text(picture.text).filter(visible=True).first).to_be_visible()
        return len(await page.screenshot(path=FOLDER / f"{picture.name}.png", animations="disabled"))


async def main(names: list[str]) -> None:
    """Make the pictures with these names, or all."""
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser, demo() as shown:
        for picture in PICTURES:
            if not names or picture.name in names:
                size = await take(browser, shown, picture)
                print(f"{picture.name}.png: {size} bytes{' - too large' if size > MAX_BYTES else ''}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

"""Tables with long texts on a phone: a row is a card, so that nothing is cut and nothing scrolls sideways."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from client.admin.admin import Admin
from security.acls.binding import AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, Permission, ResourceType
from support.console_pages import DESKTOP, PHONE, accessibility_problems, cramped, overflow

pytestmark = pytest.mark.asyncio(loop_scope="session")
TOPIC = "orders.of.the.whole.company"
CARDS = {
    f"/topics/{TOPIC}/configuration?q=segment.bytes": (
        "segment.bytes",
        ["Value", "Source", "Kafka's default", "Change"],
    ),
    "/brokers/{broker}/log-levels?q=broker.controller": ("broker.controller.broker_channels", ["Level"]),
    "/security/acls": ("User:alice-of-the-warehouse", ["Permission", "Operation", "Resource", "Host"]),
}
"""Paths: the head of a card, and the labels of its values."""
LABELS = """(row) => [...row.querySelectorAll("td")]
    .map((cell) => getComputedStyle(cell, "::before").content.replaceAll('"', ""))
    .filter((label) => label && label !== "none")"""

SCROLL = "(y) => new Promise((drawn) => { scrollTo(0, y); requestAnimationFrame(() => requestAnimationFrame(drawn)); })"
TOP = "(row) => Math.round(row.getBoundingClientRect().top)"
IN_THE_MIDDLE = "() => document.elementFromPoint(100, innerHeight / 2).closest('tr')"
SAY = "(text) => import('/static/core/toast.js').then(({ toast }) => toast(text))"
IS_FREE_AT_THE_END = """() => {
    scrollTo(0, document.documentElement.scrollHeight);
    const [content, message] = [".page", ".toast"].map((one) => document.querySelector(one).getBoundingClientRect());
    return content.bottom <= message.top;
}"""


@pytest.fixture(scope="module")
def broker_settings():
    return {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def broker_id(broker):
    """The id of a broker; there is a topic, and an ACL."""
    rule = AccessRule("User:alice-of-the-warehouse", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic(TOPIC, 1)
        await admin.create_acls([AclBinding(ResourcePattern(ResourceType.TOPIC, TOPIC), rule)])
        return (await admin.describe_cluster()).brokers[0].node_id


@pytest.mark.parametrize("path", CARDS)
async def test_a_row_is_a_card(console, broker_id, path):
    head, labels = CARDS[path]
    async with console.at(path.format(broker=broker_id), **PHONE) as page:
        card = page.locator("tbody tr").filter(has_text=head).first
        await expect(card).to_be_visible()
        assert await card.evaluate(LABELS) == labels
        wraps = page.locator(".table-wrap")
        assert await wraps.evaluate_all("(all) => all.map((one) => one.scrollWidth - one.clientWidth)") == [0]
        assert await cramped(page) == []
        assert await overflow(page) <= 0
        assert await accessibility_problems(page) == []


async def test_cards_stay_in_their_places_while_a_long_list_is_scrolled(console, broker, broker_id):
    rule = AccessRule("User:many", "*", Operation.READ, Permission.ALLOW)
    topics = [ResourcePattern(ResourceType.TOPIC, f"{'long.' * (number % 9)}{number:03}") for number in range(200)]
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_acls([AclBinding(topic, rule) for topic in topics])
        try:
            async with console.at("/security/acls?q=many", **PHONE) as page:
                cards = page.locator("tbody tr")
                await expect(cards.first).to_be_visible()
                assert await cards.count() == len(topics)  # or the first scroll would change the page's height
                for place in (2000, 5000, 9000):
                    await page.evaluate(SCROLL, place)
                    card = await page.evaluate_handle(IN_THE_MIDDLE)
                    top = await card.evaluate(TOP)
                    await page.evaluate(SCROLL, place + 300)
                    assert await card.evaluate(TOP) == top - 300
        finally:
            await admin.delete_acls([AclFilter(principal="User:many")])


@pytest.mark.parametrize("path", CARDS)
async def test_on_a_wide_window_it_is_a_table(console, broker_id, path):
    head, _ = CARDS[path]
    async with console.at(path.format(broker=broker_id), **DESKTOP) as page:
        row = page.locator("tbody tr").filter(has_text=head).first
        await expect(row).to_be_visible()
        assert await row.evaluate(LABELS) == []


async def test_what_a_message_covers_can_be_scrolled_away_from_it(console, broker_id):
    async with console.at(f"/brokers/{broker_id}", **PHONE) as page:
        await expect(page.get_by_text("log.retention.ms", exact=True)).to_be_attached()
        await page.evaluate(SAY, "Something was changed.")
        await expect(page.get_by_text("Something was changed.")).to_be_visible()
        assert await page.evaluate(IS_FREE_AT_THE_END)

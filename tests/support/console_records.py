"""Records for the pages that show them: the same ones each time, so that pictures of the pages do not change."""

from __future__ import annotations

import json

from client.admin.admin import Admin
from client.producer.producer import Producer

BEGIN_MS = 1_700_000_000_000
CITIES = ("Prague", "Vienna", "Berlin", "Zürau")


async def make_orders(bootstrap_servers: str, topic: str, *, count: int = 120) -> None:
    """Create a topic of three partitions with orders, one each second: {"order": 0, "customer": {…}, …}."""
    async with Admin(bootstrap_servers=bootstrap_servers) as admin:
        await admin.create_topic(topic, partitions=3, configs={"retention.ms": "-1"})  # their times are old
    async with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(count):
            await producer.send(
                topic,
                json.dumps(order(number), ensure_ascii=False).encode(),
                key=f"customer-{number % 7}".encode(),
                partition=number % 3,
                timestamp_ms=BEGIN_MS + number * 1000,
                headers=[("trace", f"00-{number:08x}".encode())],
            )


def order(number: int) -> dict[str, object]:
    """The value of an order."""
    return {
        "order": number,
        "customer": {"id": number % 7, "city": CITIES[number % len(CITIES)]},
        "items": [{"article": f"A-{number % 5}", "price": 1.5 + number % 5}],
        "paid": number % 3 == 0,
    }

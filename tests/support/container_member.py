"""A listener container, run until the process is killed.

Prints a line "partition offset key" for each record that it has handled.
"""

import asyncio
import random

from client.ack_mode import AckMode
from client.consumer import Consumer
from client.listener_container import ListenerContainer


def run(servers: str, group: str, topic: str, seed: int, concurrency: int) -> None:
    asyncio.run(_run(servers, group, topic, random.Random(seed), concurrency))


async def _run(servers: str, group: str, topic: str, chosen: random.Random, concurrency: int) -> None:
    async def handler(record):
        await asyncio.sleep(chosen.choice((0, 0.002, 0.01)))
        print(record.partition, record.offset, record.key.decode(), flush=True)

    consumer = Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=2_000,
        heartbeat_interval_ms=100,
    )
    async with (
        consumer,
        ListenerContainer(consumer, handler, ack_mode=AckMode.RECORD, concurrency=concurrency) as container,
    ):
        await container.run()

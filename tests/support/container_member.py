"""A listener container, run until the process is killed.

Prints a line "partition offset key" for each record that it has handled, and "assigned …", "revoked …" or "lost …"
with partitions when these come and go.
"""

import asyncio
import random

from client.consumer.consumer import Consumer
from client.consumer.rebalance_listener import RebalanceListener
from client.listener.ack_mode import AckMode
from client.listener.container import ListenerContainer


class Tenures(RebalanceListener):
    """Tells of partitions that come and go."""

    def on_partitions_assigned(self, partitions):
        _tell("assigned", partitions)

    def on_partitions_revoked(self, partitions):
        _tell("revoked", partitions)

    def on_partitions_lost(self, partitions):
        _tell("lost", partitions)


def _tell(what, partitions):
    print(what, *(one.partition for one in partitions), flush=True)


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
    consumer.rebalance_listener = Tenures()
    async with (
        consumer,
        ListenerContainer(consumer, handler, ack_mode=AckMode.RECORD, concurrency=concurrency) as container,
    ):
        await container.run()

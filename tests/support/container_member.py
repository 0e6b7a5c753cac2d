"""A listener container as a process: `python -m support.container_member servers group topic seed concurrency`.

Prints a line "partition offset key" for each record that it has handled.
"""

import asyncio
import random
import sys

from client.ack_mode import AckMode
from client.consumer import Consumer
from client.listener_container import ListenerContainer


async def main(servers: str, group: str, topic: str, seed: str, concurrency: str) -> None:
    chosen = random.Random(int(seed))

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
        ListenerContainer(consumer, handler, ack_mode=AckMode.RECORD, concurrency=int(concurrency)) as container,
    ):
        await container.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

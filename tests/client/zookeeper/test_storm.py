"""Consumers of one ZooKeeper group that come and go at random, all in this process: every record is handed out once."""

import asyncio
import random
import time

from client.admin.admin import Admin
from client.errors import ClosedError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from client.zookeeper.consumer import ZooKeeperConsumer
from client.zookeeper.rebalance import ZooKeeperRebalanceListener
from support.broker import running_broker
from support.deadlines import DEADLINE_S
from support.polling import until
from support.seeds import chosen_seed
from support.zookeeper import new_chroot, shared_zookeeper
from support.zookeeper_consumers import CLAIM, RECORD, Entry, check_entries

PARTITIONS = 10
STEPS = 30
MOST = 8


class Storm:
    """The consumers that there are, and what all of them have written down."""

    def __init__(self, connect, rng):
        self.entries = []
        self.live = {}
        self._connect = connect
        self._random = rng
        self._count = 0

    def start(self):
        self._count += 1
        name = f"c{self._count}"
        storm = self

        class Listener(ZooKeeperRebalanceListener):
            async def before_starting_fetchers(self, partitions):
                for partition in partitions:
                    storm.note(name, CLAIM, partition)

        consumer = ZooKeeperConsumer(
            {"orders": self._random.randint(1, 3)},
            zookeeper_connect=self._connect,
            group_id="g",
            consumer_id=name,
            auto_offset_reset="smallest",
            rebalance_listener=Listener(),
            rebalance_backoff_ms=500,
            rebalance_max_retries=20,
        )
        self.live[name] = consumer, asyncio.create_task(self._read(name, consumer))

    async def _read(self, name, consumer):
        try:
            await consumer.start()
        except ClosedError:
            return
        async for record in consumer:
            self.note(name, RECORD, TopicPartition(record.topic, record.partition), str(record.offset))
            if self._random.random() < 0.05:
                await asyncio.sleep(0.002)

    def note(self, name, kind, partition, detail=""):
        self.entries.append(Entry(time.monotonic_ns(), name, kind, partition, detail))

    async def stop(self, name):
        consumer, task = self.live.pop(name)
        await consumer.close()
        async with asyncio.timeout(DEADLINE_S):
            await task

    def read(self):
        return sum(entry.kind == RECORD for entry in self.entries)


async def test_consumers_that_join_and_leave_at_random(tmp_path):
    rng = random.Random(chosen_seed(16))
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    storm = Storm(connect, rng)
    async with running_broker(tmp_path / "data", zookeeper_connect=connect) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("orders", partitions=PARTITIONS)
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for step in range(STEPS):
                if len(storm.live) < 2 or (len(storm.live) < MOST and rng.random() < 0.55):
                    storm.start()
                else:
                    await storm.stop(rng.choice(list(storm.live)))
                for partition in range(PARTITIONS):
                    await producer.send("orders", b"%d" % step, partition=partition)
        await until(lambda: storm.read() >= PARTITIONS * STEPS, "everything is read")
        for name in list(storm.live):
            await storm.stop(name)
    assert check_entries(storm.entries) == 0  # nothing twice: every consumer has said goodbye
    assert storm.read() == PARTITIONS * STEPS

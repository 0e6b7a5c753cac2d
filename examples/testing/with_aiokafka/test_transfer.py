"""The service runs as a task. Needs pytest-asyncio, with asyncio_mode = "auto"."""

import asyncio

import pytest
import transfer
from aiokafka import AIOKafkaProducer

from ottla.testing import async_assertions as kafka


@pytest.fixture
async def start(ottla_broker, ottla_topic):
    """A function that starts the service; all its tasks end with the test."""
    tasks = []

    def start():
        tasks.append(asyncio.create_task(transfer.run(ottla_broker.bootstrap_servers, ottla_topic, f"{ottla_topic}-2")))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_restart_copies_nothing_twice(ottla_broker, ottla_topic, start):
    servers = ottla_broker.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(10):
            await producer.send_and_wait(ottla_topic, b"%d" % number)

        service = start()
        await kafka.wait_for_records(servers, f"{ottla_topic}-2", 5)
        service.cancel()  # in the middle of a transaction, or between two
        await asyncio.wait([service])
        start()
        await kafka.wait_for_no_lag(servers, f"{ottla_topic}-transfer", topics=[ottla_topic])

    copied = await kafka.read_topic(servers, f"{ottla_topic}-2", isolation_level="read_committed")
    assert [record.value for record in copied] == [b"%d" % number for number in range(10)]

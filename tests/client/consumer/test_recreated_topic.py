"""A topic is deleted and recreated while it is read: its records are other ones, whatever their offsets are."""

import asyncio
import contextlib

import pytest

from client.admin.admin import Admin
from client.consumer.reader import Reader
from client.errors import LogTruncationError, TopicExistsError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.deadlines import DEADLINE_S
from support.polling import until


async def write(broker, topic, values):
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            await producer.send(topic, b"%d" % value)


async def read(source, count):
    async with asyncio.timeout(DEADLINE_S):
        return [int((await anext(source)).value) for _ in range(count)]


async def make_anew(admin, topic):
    await admin.delete_topic(topic)
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with contextlib.suppress(TopicExistsError):  # it is being deleted for a moment
                await admin.create_topic(topic, 1)
                return


@pytest.mark.parametrize("written", [3, 9], ids=["shorter than before", "longer than before"])
async def test_reading_starts_at_the_beginning_of_the_recreated_topic(broker, written, caplog):
    topic, options = f"recreated-{written}", {"bootstrap_servers": broker.bootstrap, "retry_backoff_ms": 10}
    partition = TopicPartition(topic, 0)
    async with (
        Admin(bootstrap_servers=broker.bootstrap) as admin,
        Reader(auto_offset_reset="earliest", **options) as source,
        Reader(auto_offset_reset="none", **options) as strict,
    ):
        await admin.create_topic(topic, 1)
        await write(broker, topic, range(5))
        for one in (source, strict):
            one.assign({partition: 0})
            assert await read(one, 5) == [0, 1, 2, 3, 4]
        await make_anew(admin, topic)
        await write(broker, topic, range(100, 100 + written))
        assert await read(source, written) == list(range(100, 100 + written))
        assert f"{partition}: the topic was deleted and recreated; it had been read up to offset 5" in caplog.text
        with pytest.raises(LogTruncationError, match=r"recreated.*up to offset 5") as caught:
            await read(strict, 1)
        strict.seek(partition, caught.value.offset)
        assert await read(strict, written) == list(range(100, 100 + written))
        await until(lambda: source.lag(partition) == 0, "the end is known")

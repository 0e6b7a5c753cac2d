"""Records that are not in the page cache are read off the event loop: other clients do not wait for the disk."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.consumer.reader import Reader
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from storage.file_system import FileSystem
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.polling import until


class ColdFileSystem(FileSystem):
    """Nothing is ever cached, and reads can be made to hang as a slow disk makes them."""

    def __init__(self):
        super().__init__()
        self.disk = threading.Event()
        self.disk.set()
        self.reads = 0

    def pread_now(self, fd, length, position):
        return None

    def sendfile_now(self, socket_fd, fd, length, position):
        return None

    async def run_blocking(self, work):
        def slowly():
            self.disk.wait(DEADLINE_S)
            return work()

        self.reads += 1
        return await super().run_blocking(slowly)


async def produced(bootstrap, values):
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send("t", value=value, partition=0)


async def consumed(bootstrap, count):
    async with Reader(bootstrap_servers=bootstrap) as reader:
        reader.assign({TopicPartition("t", 0): "beginning"})
        values = []
        async for record in reader:
            values.append(record.value)
            if len(values) == count:
                break
        return values


@pytest.mark.parametrize("size", [10, 300_000])
async def test_records_that_are_not_cached_arrive_complete(tmp_path, size):
    fs = ColdFileSystem()
    values = [bytes([number]) * size for number in range(12)]
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data")), fs=fs) as broker:
        await produced(broker.bootstrap_servers, values)
        before = fs.reads
        async with asyncio.timeout(DEADLINE_S):
            assert await consumed(broker.bootstrap_servers, len(values)) == values
        assert fs.reads > before


async def test_a_slow_disk_delays_only_its_readers(tmp_path):
    fs = ColdFileSystem()
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data")), fs=fs) as broker:
        await produced(broker.bootstrap_servers, [b"a"])
        fs.disk.clear()
        before = fs.reads
        reading = asyncio.create_task(consumed(broker.bootstrap_servers, 1))
        await until(lambda: fs.reads > before, "the read has begun")
        async with asyncio.timeout(DEADLINE_S):
            await produced(broker.bootstrap_servers, [b"b"])  # served meanwhile
        assert not reading.done()
        fs.disk.set()
        async with asyncio.timeout(DEADLINE_S):
            assert await reading == [b"a"]


async def test_cached_records_are_read_on_the_loop(tmp_path):
    class Counting(FileSystem):
        reads = 0

        async def run_blocking(self, work):
            self.reads += 1
            return await super().run_blocking(work)

    fs = Counting()
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data")), fs=fs) as broker:
        await produced(broker.bootstrap_servers, [b"x" * 100_000])
        before = fs.reads
        async with asyncio.timeout(DEADLINE_S):
            assert await consumed(broker.bootstrap_servers, 1) == [b"x" * 100_000]
        assert fs.reads == before

"""Requests that read files are served by other threads: other connections do not wait for a slow disk."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.message_set import iter_messages
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest
from protocol.record_batch import RecordBatch
from storage.file_system import FileSystem
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.polling import until
from support.wire import NOW_MS, append, batch, create_topic, fetch, until_led, wire_client

VALUE = b"v" * 20_000


class SlowFileSystem(FileSystem):
    """A disk that does not answer while `gate` is closed. Reads on the event loop's thread fail meanwhile."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.shortest = 0
        """The length of the shortest read that waits."""
        self.waiting = []
        """What has waited; threads have copies of this object (`for_one_thread`), which share this list."""
        self.loop_thread = threading.current_thread()
        self.on_loop = []

    def _wait(self, what, length=0):
        if self.gate.is_set() or length < self.shortest:
            return
        if threading.current_thread() is self.loop_thread:
            self.on_loop.append(what)
            return
        self.waiting.append(what)
        assert self.gate.wait(DEADLINE_S)

    def pread(self, fd, length, position):
        self._wait(f"pread of {length} bytes", length)
        return super().pread(fd, length, position)

    def pread_now(self, fd, length, position):
        is_slow = not self.gate.is_set() and length >= self.shortest
        return None if is_slow else super().pread_now(fd, length, position)

    def open(self, path, *, create=False):
        self._wait(f"open {path}")
        return super().open(path, create=create)

    def size(self, path):
        self._wait(f"size of {path}")
        return super().size(path)

    @contextlib.asynccontextmanager
    async def slow(self):
        """The disk answers nothing until the end of the block, in which the event loop's thread reads nothing."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()
        assert self.on_loop == []


@pytest.fixture
def fs():
    return SlowFileSystem()


@contextlib.asynccontextmanager
async def served_meanwhile(fs, bootstrap, request, version):
    """Yield the answer to a request that has to wait for the disk, while the broker has answered another connection."""
    async with wire_client(bootstrap) as one, wire_client(bootstrap) as other:
        async with fs.slow():
            answering = asyncio.create_task(one.call(request, version))
            await until(lambda: fs.waiting or fs.on_loop, "the broker reads from the disk")
            await other.call(MetadataRequest(topics=[]), 4)
            assert not answering.done()
        yield await answering


def list_offsets(timestamp):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])


@contextlib.asynccontextmanager
async def three_segments(tmp_path, fs, *, started_again=False):
    """A broker with the topic `t`: a batch of one record in each of its three segments."""
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    async with Broker(config, fs=fs) as broker:
        async with wire_client(broker.bootstrap_servers) as client:
            await create_topic(client, "t", segment_bytes="30000")
            for number in range(3):
                await append(client, "t", batch(VALUE, timestamp=NOW_MS + number))
        log = broker.services.logs.get("t", 0)
        assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
        if not started_again:
            yield broker, log
            return
    async with Broker(config, fs=fs) as broker:
        async with wire_client(broker.bootstrap_servers) as client:
            await until_led(client.call)
        yield broker, broker.services.logs.get("t", 0)


@pytest.mark.parametrize(("timestamp", "offset"), [(NOW_MS + 1, 1), (-3, 2)], ids=["any", "largest"])
async def test_list_offsets_by_timestamp(tmp_path, fs, timestamp, offset):
    async with three_segments(tmp_path, fs) as (broker, _):
        request = list_offsets(timestamp)
        async with served_meanwhile(fs, broker.bootstrap_servers, request, 7) as answer:
            (found,) = answer.topics[0].partitions
            assert (found.error_code, found.offset) == (0, offset)


@pytest.mark.parametrize("max_wait_ms", [0, 60_000])
async def test_fetch_of_an_old_client(tmp_path, fs, max_wait_ms):
    fs.shortest = 10_000  # the records, not the header of the batch
    async with three_segments(tmp_path, fs) as (broker, _):
        request = fetch("t", max_wait_ms=max_wait_ms)
        async with served_meanwhile(fs, broker.bootstrap_servers, request, 3) as answer:
            (found,) = answer.responses[0].partitions
            assert found.error_code == 0
            assert [message.value for message in iter_messages(found.records)] == [VALUE]


@pytest.mark.parametrize("started_again", [False, True])
@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("max_wait_ms", [0, 60_000])
async def test_fetch_from_a_segment_whose_index_is_not_cached(
    tmp_path, fs, started_again, isolation_level, max_wait_ms
):
    async with three_segments(tmp_path, fs, started_again=started_again) as (broker, _):
        request = fetch("t", 1, max_wait_ms=max_wait_ms, isolation_level=isolation_level)
        async with served_meanwhile(fs, broker.bootstrap_servers, request, 12) as answer:
            (found,) = answer.responses[0].partitions
            assert found.error_code == 0
            assert [one.offset for one in RecordBatch(memoryview(found.records)).records()] == [1]


async def test_list_offsets_of_a_log_that_is_truncated_meanwhile(tmp_path, fs):
    async with three_segments(tmp_path, fs) as (broker, log), wire_client(broker.bootstrap_servers) as client:
        async with fs.slow():
            answering = asyncio.create_task(client.call(list_offsets(-3), 7))
            await until(lambda: fs.waiting, "the broker reads from the disk")
            log.truncate_fully_and_start_at(9)
            fs.on_loop.clear()
        (found,) = (await answering).topics[0].partitions
        assert (found.error_code, found.offset) == (0, -1)


async def test_the_replay_of_producers_before_a_truncation(tmp_path, fs):
    async with three_segments(tmp_path, fs) as (broker, log):
        async with wire_client(broker.bootstrap_servers) as client:
            async with fs.slow():
                truncating = asyncio.create_task(broker.services.logs.truncate_to(log, 1))
                await until(lambda: fs.waiting, "the log is replayed")
                await client.call(MetadataRequest(topics=[]), 4)
                assert not truncating.done()
                assert log.log_end_offset == 3
            assert await truncating
        assert log.log_end_offset == 1

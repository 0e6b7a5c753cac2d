"""A full disk under a broker: nothing acknowledged is lost, nothing dies, and it goes on when there is room again.

On a real disk of a few megabytes where this machine lets us mount one; and with the file system that refuses writes
everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from confluent_kafka import Producer

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.errors import BufferFullError, DeliveryTimeoutError
from client.producer.producer import Producer as OwnProducer
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.record_batch import iter_batches
from registry.embedded.store import EmbeddedStore
from support.broker import settings, until_leader
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.faulty_disk import FaultyFileSystem
from support.full_disk import DISK_BYTES, SCENARIOS
from support.polling import until
from support.small_disk import run_on_small_disk
from support.transactions import TransactionalProducer, committed, describe, until_state
from support.wire import append, batch, create_topic, fetch, wire_client

STORAGE_ERROR = 56


# -- a real one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_real_disk_of_a_few_megabytes(tmp_path, scenario):
    """The scenario runs in a process that has mounts of its own."""
    run_on_small_disk("support.full_disk", "main", tmp_path / "disk", DISK_BYTES, scenario)


# -- an injected one ---------------------------------------------------------------------------------------------------


class Disk:
    """A broker whose log directory holds no more than the test lets it, with the registry in memory."""

    def __init__(self, tmp_path, store):
        self.path = tmp_path / "disk"
        self.fs = FaultyFileSystem(self.path)
        self.store = store

    @contextlib.asynccontextmanager
    async def running(self, **overrides):
        config = BrokerConfig.load(None, settings(self.path, auto_create_topics_enable="false", **overrides))
        async with (
            Broker(config, fs=self.fs, store=self.store) as self.broker,
            wire_client(self.broker.bootstrap_servers) as self.client,
        ):
            yield self

    def fill(self):
        self.fs.capacity = self.fs.used()

    @property
    def directory(self):
        return self.broker.services.logs.dirs.all[0]

    async def values(self, topic, partition=0):
        answer = await self.client.call(fetch(topic, 0, partition), 12)
        [data] = answer.responses[0].partitions
        assert data.error_code == 0
        return [record.value for one in iter_batches(bytes(data.records)) for record in one.records()]


@pytest.fixture
async def disk(tmp_path):
    store = await EmbeddedStore.open()
    yield Disk(tmp_path, store)
    await store.close()


async def test_appends_are_refused_and_readers_continue(disk, caplog):
    caplog.set_level("INFO")
    async with disk.running():
        await create_topic(disk.client, "t")
        first = batch(b"a", producer_id=1, producer_epoch=0, sequence=0)
        second = batch(b"b", producer_id=1, producer_epoch=0, sequence=1)
        assert (await append(disk.client, "t", first)).error_code == 0
        disk.fill()
        for acks in (1, -1, -1):
            refused = await append(disk.client, "t", second, acks=acks)
            assert (refused.error_code, refused.base_offset) == (STORAGE_ERROR, -1)
        await until(lambda: disk.directory.is_full, "the broker knows")
        assert disk.directory.is_online
        assert await disk.values("t") == [b"a"]
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        assert (await disk.client.call(request, 7)).topics[0].partitions[0].offset == 1
        disk.fs.capacity = None
        again = await append(disk.client, "t", second)  # at once, whether or not the broker has noticed
        assert (again.error_code, again.base_offset) == (0, 1)
        assert (await append(disk.client, "t", second)).base_offset == 1  # a retry of what was taken
        assert await disk.values("t") == [b"a", b"b"]
        await until(lambda: "has room again" in caplog.text, "the broker has noticed")
        assert not disk.directory.is_full
    assert caplog.text.count("is full") == 1
    assert caplog.text.count("has room again") == 1


async def test_our_producer_says_why_nothing_is_acknowledged(disk):
    async with disk.running():
        await create_topic(disk.client, "t")
        disk.fill()
        servers = disk.broker.bootstrap_servers
        async with OwnProducer(bootstrap_servers=servers, delivery_timeout_ms=400, request_timeout_ms=400) as producer:
            with pytest.raises(DeliveryTimeoutError, match=r"not acknowledged within 0.4 s: .*KAFKA_STORAGE_ERROR"):
                await producer.send("t", b"a")
            assert producer.retried_error is None
        async with OwnProducer(bootstrap_servers=servers, buffer_memory=2000, max_block_ms=400) as producer:
            refused = producer.send_nowait("t", bytes(1900))
            await until(lambda: producer.retried_error, "it is refused")
            with pytest.raises(BufferFullError, match="KAFKA_STORAGE_ERROR"):
                await producer.send("t", bytes(1900))
            with pytest.raises(BufferFullError, match="KAFKA_STORAGE_ERROR"):
                await producer.buffer_has_room()
            disk.fs.capacity = None
            assert (await refused).offset == 0
            assert producer.retried_error is None


async def test_a_partition_is_created_when_there_is_space_again(disk):
    async with disk.running():
        disk.fill()
        await create_topic(disk.client, "t", 2)
        await until(lambda: disk.broker.metadata.snapshot.partition("t", 1), "the topic is known")
        for partition in (0, 1):
            assert (await append(disk.client, "t", batch(b"a"), partition)).error_code == STORAGE_ERROR
        assert not list(disk.path.glob("t-*"))
        disk.fs.capacity = None
        for partition in (0, 1):
            await until_leader(disk.broker, "t", partition)
            assert (await append(disk.client, "t", batch(b"a"), partition)).error_code == 0
            assert await disk.values("t", partition) == [b"a"]


async def test_a_topic_is_deleted_to_make_room(disk):
    from protocol.messages.delete_topics import DeleteTopicsRequest

    async with disk.running(log_segment_delete_delay_ms="0"):
        await create_topic(disk.client, "large")
        await create_topic(disk.client, "t")
        assert (await append(disk.client, "large", batch(bytes(200_000)))).error_code == 0
        disk.fill()
        assert (await append(disk.client, "t", batch(bytes(1000)))).error_code == STORAGE_ERROR
        answer = await disk.client.call(DeleteTopicsRequest(topic_names=["large"], timeout_ms=DEADLINE_MS), 3)
        assert answer.responses[0].error_code == 0
        await until(lambda: not list(disk.path.glob("large-0*")), "its files are gone")
        assert (await append(disk.client, "t", batch(bytes(1000)))).error_code == 0


async def test_a_producer_writes_to_a_disk_that_is_repeatedly_full(disk):
    """Room comes a few kilobytes at a time; every record is there once and in order."""
    count = 600
    async with disk.running(
        log_segment_bytes="20000",
        log_index_interval_bytes="300",
        log_flush_interval_messages="7",
        replica_high_watermark_checkpoint_interval_ms="20",
        log_flush_offset_checkpoint_interval_ms="20",
    ):
        await create_topic(disk.client, "t", 2)
        producer = Producer(
            {
                "bootstrap.servers": disk.broker.bootstrap_servers,
                "enable.idempotence": True,
                "batch.num.messages": 20,
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 20,
            }
        )
        failed = []
        disk.fill()

        def produce():
            for number in range(count):
                producer.produce("t", b"%06d" % number + bytes(200), partition=number % 2, on_delivery=on_delivery)
            producer.flush(2 * DEADLINE_S)

        def on_delivery(error, message):
            if error is not None:
                failed.append(error)

        thread = threading.Thread(target=produce)
        thread.start()
        full = 0
        while thread.is_alive():
            refused = disk.fs.refused
            with contextlib.suppress(AssertionError):
                await until(lambda: disk.fs.refused > refused or not thread.is_alive(), "full", 1.0)  # noqa: B023
            full += disk.fs.refused > refused
            disk.fs.capacity += 9_000
            await asyncio.sleep(0)
        thread.join()
        assert not failed
        assert len(producer) == 0
        assert full >= 5
        for partition in (0, 1):
            expected = [b"%06d" % number + bytes(200) for number in range(partition, count, 2)]
            log = disk.broker.services.logs.get("t", partition)
            found = []
            while len(found) < len(expected):
                answer = await disk.client.call(fetch("t", len(found), partition), 12)
                records = bytes(answer.responses[0].partitions[0].records)
                found += [record.value for one in iter_batches(records) for record in one.records()]
            assert found == expected
            assert log.log_end_offset == len(expected)
            assert len(log.segments) > 2
        disk.fs.capacity = None
    assert (disk.path / ".kafka_cleanshutdown").exists()


# -- transactions ------------------------------------------------------------------------------------------------------

STATE = "__transaction_state"


class OpenTransaction:
    """A producer that has written "v" in its first transaction, and the directories that its end is written to."""

    def __init__(self, disk, **options):
        self.disk = disk
        self.producer = TransactionalProducer(disk.client.call, "x", **options)
        self.data = disk.path / "t-0"
        self.state = disk.path / f"{STATE}-0"

    async def begin(self):
        await create_topic(self.disk.client, "t")
        await self.producer.begin()
        await self.producer.write("t", b"v")
        return self

    def fill(self, directory):
        """Writes there are refused from now on; how many there were until now."""
        self.disk.fs.full = {directory}
        return self.disk.fs.refused

    async def until_refused(self, before):
        await until(lambda: self.disk.fs.refused > before + 1, "a write and its first retry are refused")

    async def transaction_state(self):
        return (await describe(self.disk.client.call, "x")).transaction_state

    async def next_one_is_committed(self, *before):
        await self.producer.write("t", b"next")
        await self.producer.ended(True)
        assert await committed(self.disk.client.call, "t") == [*before, b"next"]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_decided_transaction_ends_when_there_is_space_again(disk, commit):
    """First the partition has no room for the marker, then the coordinator's log none for the end."""
    async with disk.running(transaction_state_log_num_partitions="1"):
        one = await OpenTransaction(disk).begin()
        before = one.fill(one.data)
        assert await one.producer.end(commit) == 0
        await one.until_refused(before)
        assert await one.transaction_state() == ("PrepareCommit" if commit else "PrepareAbort")
        assert await committed(disk.client.call, "t") == []
        before = one.fill(one.state)
        await one.until_refused(before)
        assert await one.transaction_state() == ("PrepareCommit" if commit else "PrepareAbort")
        values = [b"v"] if commit else []
        assert await committed(disk.client.call, "t") == values  # the marker is written
        disk.fs.full = set()
        await until_state(disk.client.call, "x", "CompleteCommit" if commit else "CompleteAbort")
        await one.next_one_is_committed(*values)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_producer_retries_an_end_that_could_not_be_written(disk, commit):
    """The transaction stays open, and the next EndTxn ends it when there is room."""
    async with disk.running(transaction_state_log_num_partitions="1"):
        one = await OpenTransaction(disk).begin()
        one.fill(one.state)
        for _ in range(3):
            assert await one.producer.end(commit) == ErrorCode.NOT_COORDINATOR
            assert await one.transaction_state() == "Ongoing"
        disk.fs.full = set()
        await one.producer.ended(commit)
        await one.next_one_is_committed(*[b"v"] if commit else [])


async def test_a_transaction_that_times_out_on_a_full_disk_is_aborted_when_there_is_space(disk):
    async with disk.running(
        transaction_state_log_num_partitions="1",
        transaction_abort_timed_out_transaction_cleanup_interval_ms="10",
    ):
        one = await OpenTransaction(disk, timeout_ms=1000).begin()
        before = one.fill(one.state)
        await one.until_refused(before)
        assert await one.transaction_state() == "Ongoing"
        disk.fs.full = set()
        await until_state(disk.client.call, "x", "CompleteAbort")
        assert await committed(disk.client.call, "t") == []


async def test_a_producer_fences_another_one_when_a_full_disk_has_space_again(disk):
    async with disk.running(transaction_state_log_num_partitions="1"):
        one = await OpenTransaction(disk).begin()
        one.fill(one.state)
        newer = TransactionalProducer(disk.client.call, "x")
        for _ in range(3):
            assert await newer.init() == ErrorCode.NOT_COORDINATOR
        disk.fs.full = set()
        await newer.begin()
        assert newer.producer_epoch == one.producer.producer_epoch + 2
        assert await one.producer.end(True, version=2) == ErrorCode.PRODUCER_FENCED
        one.producer = newer
        await one.next_one_is_committed()

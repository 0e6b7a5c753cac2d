"""A coordinator dies at any step of a transaction, and the next one carries out what was decided.

The broker's disk is copied after every write to a log that the transaction makes; each copy is what a kill at that
moment leaves. A broker that starts on it must commit what was decided to be committed, whole, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.coordinator.transactions.records import decode_value
from broker.log_adoption import adopt_logs
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.record_batch import iter_batches
from protocol.record_batch_builder import RecordBatchBuilder
from storage.file_system import FileSystem
from support.broker import running_broker, settings
from support.held_commits import hold, let_go, resign
from support.live import Clock
from support.log_dirs import RECORDED_NOW_MS, copy_log_directory
from support.polling import until
from support.transactions import (
    TransactionalProducer,
    committed,
    describe,
    offsets,
    until_state,
)
from support.wire import create_topic, until_led, wire_client

SMALL = {"transaction.state.log.num.partitions": "1", "auto.create.topics.enable": "false"}


class CopyingFileSystem(FileSystem):
    """Copies the data after each write to a log, while `copies` is set."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self.data = data
        self.copies: Path | None = None
        self.written: list[str] = []

    def pwrite(self, fd: int, data: bytes, position: int) -> int:  # type: ignore[override]
        size = os.pwrite(fd, data, position)
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if self.copies is not None and path.suffix == ".log":
            self.written.append(path.parent.name)
            shutil.copytree(self.data, self.copies / f"{len(self.written):02}")
        return size


async def record(tmp_path: Path, commit: bool) -> tuple[list[str], list[Path]]:
    """Run one transaction over two partitions behind one that was committed; what it wrote, and a copy after each."""
    data = tmp_path / "data"
    fs = CopyingFileSystem(data)
    config = BrokerConfig.load(None, settings(data) | SMALL)
    async with Broker(config, fs=fs) as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t", partitions=2)
        producer = TransactionalProducer(client.call, "x")
        await producer.begin()
        await producer.write("t", b"before")
        await producer.ended(True)
        fs.copies = tmp_path / "copies"
        fs.copies.mkdir()
        await producer.write("t", b"0", partition=0)
        await producer.write("t", b"1", partition=1)
        await producer.ended(commit)
        fs.copies = None
    return fs.written, sorted((tmp_path / "copies").iterdir())


def last_state(data: Path) -> str:
    """The last state of the only transactional id in a copy."""
    log = (data / "__transaction_state-0" / f"{0:020}.log").read_bytes()
    values = [record.value for batch in iter_batches(log) for record in batch.records()]
    return decode_value("x", values[-1]).state.label


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_kill_after_any_write(tmp_path, commit):
    written, copies = await record(tmp_path, commit)
    state, t0, t1 = "__transaction_state-0", "t-0", "t-1"
    assert written[:5] == [state, t0, state, t1, state]
    assert sorted(written[5:7]) == [t0, t1]  # the markers
    assert written[7:] == [state]
    states = [last_state(copy) for copy in copies]
    prepared, complete = ("PrepareCommit", "CompleteCommit") if commit else ("PrepareAbort", "CompleteAbort")
    assert states == ["Ongoing"] * 4 + [prepared] * 3 + [complete]
    for copy, before in zip(copies, states, strict=True):
        await goes_on(copy, before, decided=before != "Ongoing", commit=commit)


async def goes_on(data: Path, before: str, *, decided: bool, commit: bool) -> None:
    """Start on what a kill left: the transaction ends as it was decided, and the next one works."""
    async with running_broker(data) as broker, wire_client(broker.bootstrap_servers) as client:
        call = client.call
        await until_led(call)
        if decided:
            complete = "CompleteCommit" if commit else "CompleteAbort"
            assert await until_state(call, "x", complete) == complete
        else:
            assert (await describe(call, "x")).transaction_state == before
        new = TransactionalProducer(call, "x")
        await new.begin()
        assert new.producer_epoch == (1 if decided else 2)  # an open transaction is fenced before
        await new.write("t", b"after")
        await new.write("t", b"after", partition=1)
        await new.ended(True)
        seen = decided and commit
        assert await committed(call, "t", 0) == ([b"before", b"0", b"after"] if seen else [b"before", b"after"])
        assert await committed(call, "t", 1) == ([b"1", b"after"] if seen else [b"after"])
        for partition in (0, 1):
            last_stable, high_watermark = await offsets(call, "t", partition)
            assert last_stable == high_watermark


async def test_markers_wait_for_partitions_that_refuse_them(tmp_path):
    """A leader that refuses is asked again; meanwhile the transaction is prepared, and nothing of it is seen."""
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t", partitions=2)
        producer = TransactionalProducer(client.call, "x")
        await producer.begin()
        for partition in (0, 1):
            await producer.write("t", b"v", partition=partition)
        partition = broker.services.replicas.partitions.pop(("t", 1))
        assert await producer.end(True) == 0
        transaction = broker.services.coordination.transactions.describe("x")
        await until(lambda: transaction.partitions == {("t", 1)}, "the marker of the other partition is written")
        found = await describe(client.call, "x")
        assert (found.transaction_state, found.topics[0].partitions) == ("PrepareCommit", [1])
        broker.services.replicas.partitions[("t", 1)] = partition
        assert await until_state(client.call, "x", "CompleteCommit")
        assert await committed(client.call, "t", 1) == [b"v"]


async def test_a_coordinator_resigns_and_is_elected_again(tmp_path):
    """Its memory goes with the term; what it had decided is carried out by the next."""
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        producer = TransactionalProducer(client.call, "x")
        await producer.begin()
        await producer.write("t", b"v")
        held = broker.services.replicas.partitions.pop(("t", 0))  # no marker gets through
        assert await producer.end(True) == 0
        log = broker.services.coordination.transaction_log
        number = log.partition_for("x")
        partition = broker.services.replicas.partitions[(log.topic, number)]
        sync, partition.sync = partition.sync, None
        log._role_changed(number, False)
        assert (await describe_once(client, "x")).error_code == ErrorCode.NOT_COORDINATOR
        broker.services.replicas.partitions[("t", 0)] = held
        partition.sync = sync
        log._role_changed(number, True)
        assert await until_state(client.call, "x", "CompleteCommit")
        assert await committed(client.call, "t") == [b"v"]


async def describe_once(client, transactional_id):
    answer = await client.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
    return answer.transaction_states[0]


async def test_the_recorded_log_directory(tmp_path):
    """What Kafka left in `__transaction_state` is loaded, and its open transaction ends when its time is up."""
    data = copy_log_directory("broker-0", tmp_path / "data")
    await adopt_logs([data], lambda: RECORDED_NOW_MS, random.Random(0))
    clock = Clock()
    clock.now_ms = RECORDED_NOW_MS
    config = BrokerConfig.load(None, settings(data) | {"broker.id": "0", "log.cleaner.enable": "false"})
    async with Broker(config, now_ms=clock) as broker, wire_client(broker.bootstrap_servers) as client:
        coordinator = broker.services.coordination.transactions
        found = {name: await describe(client.call, name) for name in ("txn-one", "txn-two", "txn-three", "txn-ongoing")}
        assert [one.error_code for one in found.values()] == [0] * 4
        assert {
            name: (one.transaction_state, one.producer_id, one.producer_epoch, one.transaction_timeout_ms)
            for name, one in found.items()
        } == {
            "txn-one": ("CompleteAbort", 4, 0, 60_000),
            "txn-two": ("CompleteCommit", 5, 0, 60_000),
            "txn-three": ("CompleteCommit", 6, 2, 60_000),
            "txn-ongoing": ("Ongoing", 7, 0, 900_000),
        }
        assert [(one.topic, one.partitions) for one in found["txn-ongoing"].topics] == [("transactional-open", [0])]
        await until(lambda: len(coordinator.transactions()) == 4, "all are loaded")
        last_stable, high_watermark = await offsets(client.call, "transactional-open")
        assert last_stable < high_watermark
        ongoing = found["txn-ongoing"]
        clock.now_ms = ongoing.transaction_start_time_ms + ongoing.transaction_timeout_ms
        coordinator.abort_timed_out()
        assert not coordinator.describe("txn-ongoing").pending
        clock.now_ms += 1
        coordinator.abort_timed_out()
        await until_state(client.call, "txn-ongoing", "CompleteAbort")
        assert await offsets(client.call, "transactional-open") == (high_watermark + 1, high_watermark + 1)
        assert len(await committed(client.call, "transactional-open")) == last_stable


async def test_invalid_records_do_not_block_other_transactions(tmp_path, caplog):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        await TransactionalProducer(client.call, "x").begin()
        coordination = broker.services.coordination
        log, coordinator = coordination.transaction_log, coordination.transactions
        number = log.partition_for("x")
        epoch = coordinator._terms[number].epoch
        key_of_y = b"\0\0\0\1y"
        builder = RecordBatchBuilder()
        for key, value in ((b"\0\x09??", b""), (b"\0\0\0\x50cut off", b""), (key_of_y, b"\0\0cut off")):
            builder.append(0, key, value)
        written = await log.write(number, epoch, builder.build(), 5_000, lambda appended: appended)
        assert written.error == ErrorCode.NONE
        coordinator._resigned(number)
        coordinator._elected(number, epoch)
        assert await until_state(client.call, "x", "Empty")
        assert "a record of an unknown kind" in caplog.text
        assert caplog.text.count("a record is ignored") == 2


async def test_writes_of_an_earlier_term_are_ignored(tmp_path):
    """The write of an old term is committed, but its coordinator has resigned meanwhile and come back."""
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        producer = TransactionalProducer(client.call, "x")
        await producer.begin()
        await producer.added("t", 0)
        partition = hold(broker, broker.services.coordination.transaction_log, "x")
        sync, end = partition.sync, partition.log.log_end_offset
        ending = asyncio.create_task(producer.end(True))
        await until(lambda: partition.log.log_end_offset > end, "the decision is in the log")
        resign(broker, partition)
        partition.sync = sync
        broker.services.replicas.role_changed((partition.topic, partition.partition))
        let_go(broker, partition)
        assert await ending == ErrorCode.NOT_COORDINATOR
        assert await until_state(client.call, "x", "CompleteCommit")  # the new term has loaded the decision


async def test_a_fenced_end_does_not_delay_other_requests(tmp_path):
    """The partition has seen a newer epoch, as after a newer coordinator: its end is the newer one's to write."""
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        producer = TransactionalProducer(client.call, "x")
        await producer.begin()
        await producer.write("t", b"v")
        newer = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch + 1,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
        )
        answer = await client.call(WriteTxnMarkersRequest(markers=[newer]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0
        assert await producer.end(True) == 0
        await until(lambda: not broker.services.coordination.transactions._ended, "nobody waits")
        assert await producer.add("t", 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert (await describe(client.call, "x")).transaction_state == "PrepareCommit"

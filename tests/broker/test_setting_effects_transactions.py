"""The settings of transactions, seen in a live broker whose clock stands still."""

import contextlib

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from replication.partition import Partition
from support.effects import shows
from support.live import Clock, live
from support.polling import until
from support.transactions import (
    TRANSACTION,
    TransactionalProducer,
    committed,
    describe,
    find_transactions,
    offsets,
    until_state,
)

TOPIC = "__transaction_state"
SOON = "20"


async def begun(broker, transactional_id="x", **options):
    producer = TransactionalProducer(broker.ask, transactional_id, **options)
    await producer.begin()
    return producer


@shows("transaction.max.timeout.ms")
async def test_the_maximum_transaction_timeout(tmp_path):
    async with live(tmp_path / "data", {"transaction.max.timeout.ms": "5000"}) as broker:
        await begun(broker, timeout_ms=5000)
        assert await TransactionalProducer(broker.ask, "x", 5001).init() == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@shows(
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.segment.bytes",
)
async def test_the_transaction_topic_is_created_as_configured(tmp_path):
    asked = {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.segment.bytes": "123456",
    }
    async with live(tmp_path / "data", asked) as broker:
        await find_transactions(broker.ask, "x")
        (topic,) = (await broker.metadata(TOPIC)).topics
        assert [len(one.replica_nodes) for one in topic.partitions] == [1, 1, 1]
        config = broker.log(TOPIC).config
        assert (config.min_insync_replicas, config.segment_bytes) == (1, 123_456)
        assert (config.cleanup_policy, config.unclean_leader_election_enable) == ({"compact"}, False)


@shows("transaction.state.log.replication.factor")
async def test_the_transaction_topic_cannot_be_created_with_too_few_brokers(tmp_path):
    async with live(tmp_path / "data", {"transaction.state.log.replication.factor": "3"}) as broker:
        answer = await broker.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 5)
        assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await broker.metadata()).topics == []


@shows("transaction.state.log.min.isr")
async def test_min_isr_of_the_transaction_topic(tmp_path):
    async with live(tmp_path / "data", {"transaction.state.log.num.partitions": "1"}) as broker:
        await broker.create("t")
        producer = await begun(broker)
        await producer.write("t", b"v")
        with waiting_for_a_follower(broker, TOPIC, isr=(0,), min_isr=2):
            assert await producer.end(True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await describe(broker.ask, "x")).transaction_state == "Ongoing"
        await producer.ended(True)
        assert await committed(broker.ask, "t") == [b"v"]


@contextlib.contextmanager
def waiting_for_a_follower(broker, topic, isr, min_isr=1):
    """The partition has another replica, which fetches nothing."""
    partition = broker.broker.services.replicas.partitions[(topic, 0)]
    before, overrides = partition.sync, partition.log.config
    epochs = {"leader_epoch": partition.leader_epoch, "partition_epoch": 0, "controller_epoch": 1}
    partition.make_leader(partition.log, broker_id=0, **epochs, replicas=(0, 9), isr=isr)
    partition.log.config = broker.broker.config.log_config({"min.insync.replicas": str(min_isr)})
    try:
        yield
    finally:
        partition.make_leader(partition.log, broker_id=0, **epochs, replicas=(0,), isr=(0,))
        partition.sync, partition.log.config = before, overrides
        partition.log.commit_all()


@shows("request.timeout.ms")
async def test_how_long_a_marker_waits_for_its_replication(tmp_path):
    async with live(tmp_path / "data", {"request.timeout.ms": "50"}) as broker:
        await broker.create("t")
        marker = WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            coordinator_epoch=0,
        )
        with waiting_for_a_follower(broker, "t", isr=(0, 9)):
            answer = await broker.ask(WriteTxnMarkersRequest(markers=[marker]))
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@shows("transaction.state.log.load.buffer.size")
@pytest.mark.parametrize("size", [1, 5_242_880])
async def test_transactions_are_loaded_in_pieces_of_the_buffer_size(tmp_path, monkeypatch, size):
    named = {"transaction.state.log.num.partitions": "1", "transaction.state.log.load.buffer.size": str(size)}
    clock = Clock()
    async with live(tmp_path / "data", named, clock=clock, restarts=True) as broker:
        for number in range(5):
            await begun(broker, f"x{number}")
    reads = []
    read = Partition.read

    def noting(partition, offset, max_bytes, **options):
        if partition.topic == TOPIC:
            reads.append((offset, max_bytes))
        return read(partition, offset, max_bytes, **options)

    monkeypatch.setattr(Partition, "read", noting)
    async with live(tmp_path / "data", named, clock=clock, restarts=True) as broker:
        for number in range(5):
            assert (await describe(broker.ask, f"x{number}")).transaction_state == "Empty"
    assert {max_bytes for _, max_bytes in reads} == {size}
    assert [offset for offset, _ in reads] == ([0, 1, 2, 3, 4] if size == 1 else [0])


@shows("transaction.abort.timed.out.transaction.cleanup.interval.ms")
async def test_a_timed_out_transaction_is_aborted(tmp_path):
    named = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": SOON}
    async with live(tmp_path / "data", named) as broker:
        await broker.create("t")
        slow = await begun(broker, "slow", timeout_ms=1000)
        patient = await begun(broker, "patient", timeout_ms=5000)
        await slow.write("t", b"slow")
        await patient.write("t", b"patient")
        broker.clock.now_ms += 1001
        await until_state(broker.ask, "slow", "CompleteAbort")
        assert (await describe(broker.ask, "patient")).transaction_state == "Ongoing"
        assert await slow.end(True) == ErrorCode.PRODUCER_FENCED
        assert await slow.add("t", 0) == [ErrorCode.PRODUCER_FENCED]
        await patient.ended(True)
        assert await committed(broker.ask, "t") == [b"patient"]
        assert await offsets(broker.ask, "t") == (4, 4)
        await slow.begin()
        await slow.write("t", b"again")
        await slow.ended(True)
        assert await committed(broker.ask, "t") == [b"patient", b"again"]


@shows("transactional.id.expiration.ms", "transaction.remove.expired.transaction.cleanup.interval.ms")
async def test_unused_transactional_ids_expire(tmp_path):
    named = {
        "transactional.id.expiration.ms": "60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": SOON,
        "transaction.state.log.num.partitions": "1",
        "transaction.max.timeout.ms": "900000",
    }
    clock = Clock()
    async with live(tmp_path / "data", named, clock=clock, restarts=True) as broker:
        await broker.create("t")
        await begun(broker, "idle")
        busy = await begun(broker, "busy", timeout_ms=900_000)
        await busy.write("t", b"v")
        coordinator = broker.broker.services.coordination.transactions
        clock.now_ms += 59_999
        coordinator.forget_expired()
        assert (await describe(broker.ask, "idle")).error_code == 0
        clock.now_ms += 1
        await until(
            lambda: [one.transactional_id for one in coordinator.transactions()] == ["busy"], "idle is forgotten"
        )
        assert (await describe(broker.ask, "idle")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    async with live(tmp_path / "data", named, clock=clock, restarts=True) as broker:  # in the log too
        assert (await describe(broker.ask, "idle")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await describe(broker.ask, "busy")).transaction_state == "Ongoing"


@shows("transaction.partition.verification.enable")
async def test_with_verification_disabled_any_transactional_batch_is_written(tmp_path):
    async with live(tmp_path / "data") as broker:
        await broker.create("t")
        producer = await begun(broker)
        assert (await producer.produce("t", b"v")).error_code == ErrorCode.TRANSACTION_ABORTABLE
        await broker.set_dynamic(transaction_partition_verification_enable="false")
        assert (await producer.produce("t", b"v")).error_code == 0
        assert await offsets(broker.ask, "t") == (0, 1)  # and hangs

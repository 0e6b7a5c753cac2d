"""Verification guards: who may append the first batch of a transaction (KIP-890)."""

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from replication.partition import ACKS_ALL, Partition
from replication.transaction_verification import UNVERIFIED, TransactionVerification
from storage.errors import InvalidTxnStateError, OutOfOrderSequenceError
from storage.log.append import AppendOrigin
from storage.log.config import LogConfig
from storage.log.log import Log
from support.log_dirs import UnsyncedFileSystem
from support.wire import NOW_MS, batch

EXPIRATION_MS = 1000


@pytest.fixture
def partition(tmp_path):
    """A partition that this broker leads alone."""
    log = Log.open(tmp_path / "t-0", LogConfig(), fs=UnsyncedFileSystem(), now_ms=lambda: NOW_MS)
    led = Partition("t", 0)
    led.make_leader(log, broker_id=0, leader_epoch=0, partition_epoch=0, controller_epoch=0, replicas=(0,), isr=(0,))
    yield led
    log.close()


def append(partition, guard, sequence=0, epoch=0, producer_id=5):
    records = batch(b"v", producer_id=producer_id, producer_epoch=epoch, sequence=sequence, transactional=True)
    return partition.append_as_leader(memoryview(records), ACKS_ALL, guard=guard)


def end(partition, producer_id=5, epoch=0):
    marker = end_marker_batch(
        EndTransactionMarker(ControlRecordType.ABORT, 0),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=NOW_MS,
    )
    partition.append_as_leader(memoryview(marker), ACKS_ALL, AppendOrigin.COORDINATOR)


def test_only_the_first_batch_needs_a_guard(partition):
    with pytest.raises(InvalidTxnStateError):
        append(partition, UNVERIFIED)
    append(partition, partition.start_verification(5, 0, 0, NOW_MS))
    assert partition.start_verification(5, 0, 1, NOW_MS) is None
    append(partition, UNVERIFIED, sequence=1)
    assert partition.verification.guards == {}


def test_a_marker_invalidates_the_guard(partition):
    """The transaction ended while the coordinator was asked."""
    append(partition, partition.start_verification(5, 0, 0, NOW_MS))
    end(partition)
    guard = partition.start_verification(5, 0, 1, NOW_MS)
    end(partition)
    with pytest.raises(InvalidTxnStateError):
        append(partition, guard, sequence=1)
    newer = partition.start_verification(5, 0, 1, NOW_MS)
    with pytest.raises(InvalidTxnStateError):
        append(partition, guard, sequence=1)  # an answer to an older question
    append(partition, newer, sequence=1)


def test_a_guard_ends_with_leadership(partition):
    guard = partition.start_verification(5, 0, 0, NOW_MS)
    role = {"leader_epoch": 1, "partition_epoch": 1, "controller_epoch": 0, "replicas": (0, 1), "isr": (0, 1)}
    partition.make_follower(partition.log, leader_id=1, **role)
    partition.make_leader(partition.log, broker_id=0, **role | {"leader_epoch": 2, "isr": (0,)})
    with pytest.raises(InvalidTxnStateError):
        append(partition, guard)


def test_a_guard_belongs_to_one_producer(partition):
    guard = partition.start_verification(5, 0, 0, NOW_MS)
    with pytest.raises(InvalidTxnStateError):
        append(partition, guard, producer_id=6)
    append(partition, partition.start_verification(6, 0, 0, NOW_MS), producer_id=6)
    append(partition, guard)


def test_a_refused_batch_must_be_retried_first(partition):
    """A batch waits for its second try, and the one behind it must not overtake it."""
    guard = partition.start_verification(5, 0, 0, NOW_MS)  # the coordinator did not answer
    assert partition.start_verification(5, 0, 3, NOW_MS) is guard
    with pytest.raises(OutOfOrderSequenceError):
        append(partition, guard, sequence=3)
    append(partition, guard, sequence=0)


def test_a_new_producer_epoch_starts_over():
    verification = TransactionVerification()
    guard = verification.start(5, 0, 7, NOW_MS, EXPIRATION_MS)
    assert verification.start(5, 1, 0, NOW_MS, EXPIRATION_MS) is guard
    assert (guard.producer_epoch, guard.lowest_sequence) == (1, 0)
    verification.start(5, 0, -5, NOW_MS, EXPIRATION_MS)  # of the past
    assert (guard.producer_epoch, guard.lowest_sequence) == (1, 0)


def test_old_guards_expire():
    verification = TransactionVerification()
    for producer_id in range(10):
        verification.start(producer_id, 0, 0, NOW_MS + producer_id * 100, EXPIRATION_MS)
    assert len(verification.guards) == 10
    verification.start(99, 0, 0, NOW_MS + 500 + EXPIRATION_MS, EXPIRATION_MS)
    assert list(verification.guards) == [6, 7, 8, 9, 99]

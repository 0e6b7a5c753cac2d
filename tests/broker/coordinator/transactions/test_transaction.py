"""One transactional id: the rules one by one, then chance.

The model has a clock of its own and a log that is a list; it lets producers of every age do what they like, writes fail
or take their time, and the coordinator die between any two steps, which leaves what is in the log.
"""

from __future__ import annotations

import random

import pytest

from broker.coordinator.transactions.records import decode_value, encode_value
from broker.coordinator.transactions.transaction import (
    LAST_EPOCH,
    STATES_BY_LABEL,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
    Transition,
)
from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from support.counts import count

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARED = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
A, B = ("t", 0), ("t", 1)


def fresh() -> Transaction:
    """Producer id 7, epoch 0."""
    transaction = Transaction("x", 7, 1000, 0)
    transaction.complete(transaction.init_producer_id(1000, None, -1, 0))
    assert (transaction.producer_id, transaction.producer_epoch) == (7, 0)
    return transaction


def ongoing(now_ms: int = 10) -> Transaction:
    transaction = fresh()
    transaction.complete(transaction.add_partitions(7, 0, [A], now_ms))
    return transaction


def refused(code, work, *args, **kwargs) -> None:
    with pytest.raises(RequestError) as caught:
        work(*args, **kwargs)
    assert caught.value.code is code


# -- the rules --------------------------------------------------------------------------------------------------------


def test_names_are_kafkas():
    assert set(STATES_BY_LABEL) == {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    }  # fmt: skip


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction(committed):
    transaction = fresh()
    transaction.complete(transaction.add_partitions(7, 0, [A], 10))
    transaction.complete(transaction.add_partitions(7, 0, [B], 20))
    assert transaction.partitions == {A, B}
    assert (transaction.start_ms, transaction.update_ms) == (10, 20)
    transaction.complete(transaction.end(7, 0, committed, 30))
    assert transaction.state is PREPARED[committed]
    assert transaction.is_decided
    assert transaction.partitions == {A, B}
    transaction.complete(transaction.finish(40))
    assert transaction.state is COMPLETE[committed]
    assert not transaction.is_decided
    assert (transaction.partitions, transaction.start_ms, transaction.update_ms) == (set(), 10, 40)
    transaction.complete(transaction.add_partitions(7, 0, [B], 50))  # the next one
    assert (transaction.partitions, transaction.start_ms) == ({B}, 50)


def test_a_pending_change_refuses_other_changes():
    transaction = fresh()
    transaction.add_partitions(7, 0, [A], 10)
    for work in (
        lambda: transaction.add_partitions(7, 0, [B], 11),
        lambda: transaction.end(7, 0, True, 11),
        lambda: transaction.init_producer_id(1000, None, -1, 11),
    ):
        refused(ErrorCode.CONCURRENT_TRANSACTIONS, work)
    assert not transaction.has_timed_out(99_999)
    assert not transaction.has_expired(99_999, 1)
    transaction.cancel()
    assert transaction.state is EMPTY
    refused(ErrorCode.INVALID_TXN_STATE, transaction.end, 7, 0, True, 12)


def test_a_partition_of_the_transaction_is_not_added_twice():
    transaction = ongoing()
    assert transaction.add_partitions(7, 0, [A], 20) is None
    transaction.complete(transaction.end(7, 0, True, 20))
    transaction.complete(transaction.finish(20))
    assert transaction.add_partitions(7, 0, [], 30) is not None  # a new transaction, even an empty one


def test_producer_id_and_epoch_are_checked():
    for transaction in (fresh(), ongoing()):
        for work in (
            lambda *producer: transaction.add_partitions(*producer, [A], 20),  # noqa: B023
            lambda *producer: transaction.end(*producer, True, 20),  # noqa: B023
            lambda *producer: transaction.verify(*producer, [A]),  # noqa: B023
        ):
            refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, work, 8, 0)
            refused(ErrorCode.PRODUCER_FENCED, work, 7, 1)
            refused(ErrorCode.PRODUCER_FENCED, work, 7, -1)


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_is_final(committed):
    transaction = ongoing()
    transaction.complete(transaction.end(7, 0, committed, 20))
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.end, 7, 0, committed, 30)
    refused(ErrorCode.INVALID_TXN_STATE, transaction.end, 7, 0, not committed, 30)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.init_producer_id, 1000, None, -1, 30)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.add_partitions, 7, 0, [A], 30)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.verify, 7, 0, [A])
    transaction.complete(transaction.finish(40))
    assert transaction.end(7, 0, committed, 50) is None  # told again
    refused(ErrorCode.INVALID_TXN_STATE, transaction.end, 7, 0, not committed, 50)


def test_verification():
    transaction = ongoing()
    assert transaction.verify(7, 0, [A, B]) == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    transaction.add_partitions(7, 0, [B], 20)  # pending: it does not matter
    assert transaction.verify(7, 0, [A, B]) == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    assert fresh().verify(7, 0, [A]) == {A: ErrorCode.TRANSACTION_ABORTABLE}


def test_a_new_producer_has_the_next_epoch():
    transaction = fresh()
    transition = transaction.init_producer_id(2000, None, -1, 20)
    assert (transition.producer_id, transition.producer_epoch, transition.timeout_ms) == (7, 1, 2000)
    transaction.complete(transition)
    refused(ErrorCode.PRODUCER_FENCED, transaction.add_partitions, 7, 0, [A], 30)


def test_a_new_producer_aborts_the_open_transaction():
    transaction = ongoing()
    fence = transaction.init_producer_id(1000, None, -1, 20)
    assert (fence.state, fence.producer_epoch, fence.partitions) == (PREPARED[False], 1, {A})
    refused(ErrorCode.PRODUCER_FENCED, transaction.end, 7, 0, True, 30)  # at once
    transaction.complete(fence)
    transaction.complete(transaction.finish(30))
    assert transaction.init_producer_id(1000, None, -1, 40).producer_epoch == 2  # never the one that fenced


def test_the_epoch_of_a_failed_fence_is_not_bumped_again():
    transaction = ongoing()
    assert transaction.fence(20).producer_epoch == 1
    transaction.cancel()
    assert transaction.state is ONGOING
    assert transaction.fence(30).producer_epoch == 1
    transaction.cancel()
    transaction.complete(transaction.fence(50))
    assert transaction.producer_epoch == 1
    assert not transaction.fence_failed


def test_a_producer_continues_with_the_next_epoch_after_an_error():
    """KIP-360."""
    transaction = fresh()
    mine = ProducerIdAndEpoch(7, 0)
    transaction.complete(transaction.init_producer_id(1000, mine, -1, 20))
    assert transaction.producer_epoch == 1
    again = transaction.init_producer_id(1000, mine, -1, 30)  # it has not heard the answer
    assert again.producer_epoch == 1
    transaction.complete(again)
    transaction.complete(transaction.init_producer_id(1000, None, -1, 40))  # somebody else
    refused(ErrorCode.PRODUCER_FENCED, transaction.init_producer_id, 1000, mine, -1, 50)
    refused(ErrorCode.PRODUCER_FENCED, transaction.init_producer_id, 1000, ProducerIdAndEpoch(7, 1), -1, 50)
    refused(ErrorCode.PRODUCER_FENCED, transaction.init_producer_id, 1000, ProducerIdAndEpoch(8, 2), -1, 50)


def test_a_fenced_producer_cannot_continue():
    """Not even with the epoch before, as somebody may who has not heard an answer: it would get the one that fences."""
    transaction = fresh()
    transaction.complete(transaction.init_producer_id(1000, ProducerIdAndEpoch(7, 0), -1, 10))
    transaction.complete(transaction.add_partitions(7, 1, [A], 20))
    transaction.complete(transaction.fence(30))
    transaction.complete(transaction.finish(40))
    for epoch in (0, 1):
        refused(ErrorCode.PRODUCER_FENCED, transaction.init_producer_id, 1000, ProducerIdAndEpoch(7, epoch), -1, 50)


def test_an_expired_producer_gets_another_producer_id():
    """The transactional id has expired meanwhile: nothing is known of the id and the epoch that it has."""
    transaction = Transaction("x", 9, 1000, 0)
    transition = transaction.init_producer_id(1000, ProducerIdAndEpoch(7, 5), -1, 10)
    assert (transition.producer_id, transition.producer_epoch) == (9, 0)


def test_exhausted_epochs_need_another_producer_id():
    transaction = fresh()
    transaction.producer_epoch = LAST_EPOCH - 2
    assert not transaction.needs_producer_id(None)
    transaction.complete(transaction.init_producer_id(1000, None, -1, 10))
    assert transaction.producer_epoch == LAST_EPOCH - 1
    assert transaction.needs_producer_id(None)
    last = ProducerIdAndEpoch(7, LAST_EPOCH - 1)
    assert transaction.needs_producer_id(last)
    assert not transaction.needs_producer_id(ProducerIdAndEpoch(7, LAST_EPOCH - 2))
    transaction.complete(transaction.init_producer_id(1000, last, 8, 20))
    assert (transaction.producer_id, transaction.producer_epoch) == (8, 0)
    again = transaction.init_producer_id(1000, last, -1, 30)  # it has not heard of the new id
    assert (again.producer_id, again.producer_epoch) == (8, 0)


def test_the_last_epoch_can_still_be_fenced():
    transaction = ongoing()
    transaction.producer_epoch = LAST_EPOCH - 1
    transaction.complete(transaction.fence(20))
    assert transaction.producer_epoch == LAST_EPOCH
    transaction.complete(transaction.finish(30))
    assert transaction.needs_producer_id(None)
    assert transaction.init_producer_id(1000, None, 8, 40).producer_id == 8


def test_timeouts():
    transaction = ongoing(now_ms=10)
    assert not transaction.has_timed_out(1010)
    assert transaction.has_timed_out(1011)
    transaction.complete(transaction.end(7, 0, True, 20))
    assert not transaction.has_timed_out(9999)


def test_expiry():
    transaction = fresh()
    assert not transaction.has_expired(99, 100)
    assert transaction.has_expired(100, 100)
    transaction.expire()
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.init_producer_id, 1000, None, -1, 100)
    assert not ongoing().has_expired(9999, 1)


# -- chance -----------------------------------------------------------------------------------------------------------


class Model:
    """A coordinator of one transactional id that may die, its log, and everybody who has ever been its producer."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.next_id = 100
        self.log: list[bytes] = []
        self.writing: Transition | None = None
        self.on_written = lambda: None
        self.transaction = Transaction("x", self._new_id(), 1000, 0)
        self.producers: list[ProducerIdAndEpoch] = []  # in the order of their answers
        self.given: set[ProducerIdAndEpoch] = set()
        self.expected: set[tuple[str, int]] = set()  # partitions of the open transaction that were answered
        self.committed: list[ProducerIdAndEpoch] = []
        self.codes: set[ErrorCode] = set()

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def step(self) -> None:
        self.now_ms += self.rng.randrange(300)
        if self.writing is not None and self.rng.random() < 0.8:
            self.rng.choices([self.written, self.failed, self.died], [8, 1, 1])[0]()
            return
        work = self.rng.choices([self.init, self.add, self.end, self.time_passes, self.died], [2, 8, 5, 1, 1])[0]
        try:
            work()
        except RequestError as error:
            self.codes.add(error.code)

    def somebody(self) -> ProducerIdAndEpoch:
        if not self.producers or self.rng.random() < 0.1:
            return ProducerIdAndEpoch(self.rng.randrange(100, self.next_id + 2), self.rng.randrange(-1, 3))
        return self.producers[-1] if self.rng.random() < 0.7 else self.rng.choice(self.producers)

    # -- what happens

    def init(self) -> None:
        expected = self.somebody() if self.rng.random() < 0.4 else None
        transaction = self.transaction
        before = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        last = transaction.last_producer_epoch
        new_id = self._new_id() if transaction.needs_producer_id(expected) else -1
        transition = transaction.init_producer_id(1000, expected, new_id, self.now_ms)
        if transition.state is PREPARED[False]:
            self.write(transition)
            return
        answer = ProducerIdAndEpoch(transition.producer_id, transition.producer_epoch)
        is_retry = expected is not None and answer == before and expected.producer_epoch == last
        assert is_retry or answer not in self.given, "an epoch is given once"
        assert answer.producer_epoch < LAST_EPOCH

        def answered() -> None:
            self.given.add(answer)
            self.producers.append(answer)
            self.expected.clear()

        self.write(transition, answered)

    def add(self) -> None:
        who = self.somebody()
        partitions = {("t", self.rng.randrange(4)) for _ in range(self.rng.randrange(1, 3))}
        transition = self.transaction.add_partitions(*who, partitions, self.now_ms)
        self.is_latest(who)
        if transition is None:
            assert partitions <= self.transaction.partitions
            return
        self.write(transition, lambda: self.expected.update(partitions))

    def end(self) -> None:
        who, committed = self.somebody(), self.rng.random() < 0.6
        transition = self.transaction.end(*who, committed, self.now_ms)
        self.is_latest(who)
        if transition is None:
            assert self.last_written().state is COMPLETE[committed]
            return
        assert transition.partitions >= self.expected, "a partition that was answered gets its marker"
        self.write(transition, (lambda: self.committed.append(who)) if committed else lambda: None)

    def time_passes(self) -> None:
        self.now_ms += 1500
        if self.transaction.has_timed_out(self.now_ms):
            self.write(self.transaction.fence(self.now_ms))

    def is_latest(self, who: ProducerIdAndEpoch) -> None:
        assert who == (self.transaction.producer_id, self.transaction.producer_epoch), "a zombie got through"
        if self.producers:
            assert who.producer_epoch >= self.producers[-1].producer_epoch or who.producer_id != self.producers[-1][0]

    # -- the log

    def last_written(self) -> Transaction:
        return decode_value("x", self.log[-1])

    def write(self, transition: Transition, on_written=lambda: None) -> None:
        assert self.writing is None, "one change at a time"
        self.writing, self.on_written = transition, on_written

    def append(self) -> None:
        """What is written follows from what was written before."""
        assert self.writing is not None
        before = self.last_written() if self.log else None
        after = self.writing
        if before is not None and before.is_decided:
            done = COMPLETE[before.state is PREPARED[True]]
            retried = after.state is before.state and after.partitions == before.partitions
            assert after.state is done or retried, "what was decided is carried out"
            assert (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch)
        if after.state in PREPARED.values():
            assert before is not None
            assert before.state in (ONGOING, *PREPARED.values())
        self.log.append(encode_value(after))

    def written(self) -> None:
        self.append()
        assert self.writing is not None
        self.transaction.complete(self.writing)
        self.writing, on_written = None, self.on_written
        on_written()
        if self.transaction.is_decided:
            self.expected.clear()
            self.write(self.transaction.finish(self.now_ms))

    def failed(self) -> None:
        """The write is not in the log; the end of a transaction is written until it is."""
        assert self.writing is not None
        if self.writing.state in COMPLETE.values():
            return
        self.transaction.cancel()
        self.writing = None

    def died(self) -> None:
        """The next coordinator knows what is in the log, which may have the last write without an answer."""
        if self.writing is not None and self.rng.random() < 0.5:
            self.append()
        self.writing = None
        if not self.log:
            self.transaction = Transaction("x", self._new_id(), 1000, self.now_ms)
            return
        self.transaction = self.last_written()
        if self.transaction.state is not ONGOING:
            self.expected.clear()
        if self.transaction.is_decided:
            self.write(self.transaction.finish(self.now_ms))


@pytest.mark.counted
def test_random_requests_keep_the_rules():
    commits = fences = 0
    codes: set[ErrorCode] = set()
    seeds = count(300, 5000)
    for seed in range(seeds):
        model = Model(seed)
        try:
            for _ in range(150):
                model.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        commits += len(model.committed)
        fences += sum(decode_value("x", value).state is PREPARED[False] for value in model.log)
        codes |= model.codes
    assert commits > seeds
    assert fences > seeds
    assert codes == {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }

"""The coordinator of the transactional ids whose partitions of `__transaction_state` this broker leads.

Every state change is written to the log before it takes effect: `Transaction` decides it, `_write` writes it, and
`Transaction.complete` applies it when the record is committed. A transaction ends in three steps: PrepareCommit or
PrepareAbort is written, and EndTxn is answered when it is committed; the markers are written; CompleteCommit or
CompleteAbort is written. The broker that loads a partition resumes every transaction that is between the first and the
last step, so the coordinator may fail at any step.

Methods raise RequestError with Kafka's code: NOT_COORDINATOR if another broker leads the partition,
COORDINATOR_LOAD_IN_PROGRESS while the partition's log is read, and the codes of `Transaction`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from broker.cluster.connections import BrokerConnections
from broker.cluster.metadata_cache import MetadataCache
from broker.coordinator.coordinator_log import Appended, Batches, CoordinatorLog
from broker.coordinator.transactions.markers import Ending, TransactionMarkers
from broker.coordinator.transactions.records import decode_key, decode_value, encode_key, encode_value
from broker.coordinator.transactions.transaction import (
    STATES_BY_LABEL,
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TransactionState,
    Transition,
)
from broker.errors import RequestError
from broker.producer_ids import ProducerIds
from broker.settings.config import BrokerConfig
from broker.topics import Topics
from client.wire.backoff import Backoff, Retries
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.message_set import LegacyMessage
from protocol.record_batch import RecordBatch
from protocol.record_batch_builder import RecordBatchBuilder

logger = logging.getLogger(__name__)

END_WAIT_S = 0.1
"""How long AddPartitionsToTxn waits for the previous transaction to end; this usually takes some milliseconds."""
MAX_TOMBSTONES_BYTES = 16_384
APPEND_CODES = {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Term:
    """The time during which this broker is the coordinator of one partition, and the transactions of that partition."""

    __slots__ = ("epoch", "is_loading", "partition", "transactions")

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.is_loading = True
        self.transactions: dict[str, Transaction] = {}


class TransactionCoordinator:
    """See the module docstring. Works only while `run` runs."""

    def __init__(
        self,
        log: CoordinatorLog,
        *,
        brokers: BrokerConnections,
        metadata: MetadataCache,
        topics: Topics,
        producer_ids: ProducerIds,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self._log = log
        self._producer_ids = producer_ids
        self._config = config
        self._now_ms = now_ms
        self._backoff = Backoff(random=rng)
        self._markers = TransactionMarkers(
            brokers, metadata, topics.count_partitions, self._start_task, backoff=self._backoff
        )
        self._terms: dict[int, Term] = {}
        self._ended: dict[Transaction, asyncio.Future[None]] = {}
        """For each transaction that is decided and has not ended, a future that is done when the transaction ends."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Coordinate until cancelled."""
        config = self._config
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._log.listen(self._elected, self._resigned)
                tasks.create_task(
                    _repeat(config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.abort_timed_out)
                )
                tasks.create_task(
                    _repeat(config.transaction_remove_expired_transaction_cleanup_interval_ms, self.forget_expired)
                )
        finally:
            self._log.close()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        try:
            self._tasks.create_task(work)
        except RuntimeError:  # the broker is stopping
            work.close()

    # -- producers ---------------------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        """Return the producer id and epoch of a new producer; fence earlier producers and abort their open transaction.

        Raises RequestError: CONCURRENT_TRANSACTIONS until that abort is complete; INVALID_TRANSACTION_TIMEOUT.
        """
        _check_id(transactional_id)
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise RequestError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"{timeout_ms} ms is not between 1 and {self._config.transaction_max_timeout_ms}",
            )
        term, found = self._find(transactional_id)
        new_id = -1
        if found is None or found.needs_producer_id(expected):
            new_id = await self._producer_ids.next()
            term, found = self._find(transactional_id)
        if found is None:
            found = Transaction(transactional_id, new_id, timeout_ms, self._now_ms())
            term.transactions[transactional_id] = found
        elif found.needs_producer_id(expected) and new_id < 0:  # the epochs were used up during the wait
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id} has changed meanwhile")
        transition = found.init_producer_id(timeout_ms, expected, new_id, self._now_ms())
        await self._write(term, found, transition)
        if transition.state is TransactionState.PREPARE_ABORT:
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction of {transactional_id} is aborted")
        return ProducerIdAndEpoch(transition.producer_id, transition.producer_epoch)

    async def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> None:
        """Add partitions to the producer's transaction, which begins with the first of them.

        If the previous transaction is still ending, wait up to END_WAIT_S for it. Producers begin the next transaction
        as soon as EndTxn is answered, and would otherwise retry after 20 ms; a librdkafka producer that aborts in the
        meantime fails permanently.
        """
        term, transaction = self._known(transactional_id)
        transaction.check_producer(producer_id, producer_epoch)
        ended = self._ended.get(transaction)
        if ended is not None:
            await asyncio.wait([ended], timeout=END_WAIT_S)
            term, transaction = self._known(transactional_id)
        transition = transaction.add_partitions(producer_id, producer_epoch, partitions, self._now_ms())
        if transition is not None:
            await self._write(term, transaction, transition)

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it is in the producer's transaction; see `Transaction.verify`."""
        _, transaction = self._known(transactional_id)
        return transaction.verify(producer_id, producer_epoch, partitions)

    async def end(self, transactional_id: str, producer_id: int, producer_epoch: int, committed: bool) -> bool:
        """Commit or abort the producer's transaction. Returns once that is decided; the markers are written later.

        Return whether it was decided now; it may have been before.
        """
        term, transaction = self._known(transactional_id)
        transition = transaction.end(producer_id, producer_epoch, committed, self._now_ms())
        if transition is None:
            return False
        await self._write(term, transaction, transition)
        return True

    # -- queries -------------------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction:
        """Return the state of one transactional id. Raises RequestError: TRANSACTIONAL_ID_NOT_FOUND."""
        _check_id(transactional_id)
        _, transaction = self._find(transactional_id)
        if transaction is None or transaction.pending is TransactionState.DEAD:
            raise RequestError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"unknown transactional id {transactional_id}")
        return transaction

    def transactions(self) -> list[Transaction]:
        """Return all transactional ids that this broker coordinates.

        Raises RequestError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._tasks is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has not started")
        if any(term.is_loading for term in self._terms.values()):
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactions are being loaded")
        return [one for term in self._terms.values() for one in term.transactions.values()]

    def count_by_state(self) -> dict[str, int]:
        """Return the number of transactional ids in each state, for metrics."""
        counts = dict.fromkeys(STATES_BY_LABEL, 0)
        for term in self._terms.values():
            for transaction in term.transactions.values():
                counts[transaction.state.label] += 1
        return counts

    def _find(self, transactional_id: str) -> tuple[Term, Transaction | None]:
        partition = self._log.partition_for(transactional_id)
        term = self._terms.get(partition)
        if term is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR, f"{transactional_id} is not coordinated here")
        if term.is_loading:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._log.topic}-{partition} is being loaded")
        return term, term.transactions.get(transactional_id)

    def _known(self, transactional_id: str) -> tuple[Term, Transaction]:
        _check_id(transactional_id)
        term, transaction = self._find(transactional_id)
        if transaction is None:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id} has no producer id")
        return term, transaction

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _write(
        self, term: Term, transaction: Transaction, transition: Transition, *, is_retried: bool = False
    ) -> None:
        """Write a transition to the log, and apply it when it is committed. The markers of a decision are sent then.

        Raises RequestError if the write fails; the transition is then cancelled, or stays pending if `is_retried`.
        """

        def finish(appended: Appended) -> ErrorCode:
            if appended.error is ErrorCode.NONE:
                transaction.complete(transition)
                if transaction.is_decided:
                    self._carry_out(term, transaction)
            elif not is_retried:
                transaction.cancel()
            return APPEND_CODES.get(appended.error, appended.error)

        builder = RecordBatchBuilder()
        builder.append(self._now_ms(), encode_key(transaction.transactional_id), encode_value(transition))
        code = await self._log.write(term.partition, term.epoch, builder.build(), transition.timeout_ms, finish)
        if code:
            raise RequestError(code, f"{transaction.transactional_id} cannot become {transition.state.label}")

    def _is_current(self, term: Term) -> bool:
        return self._terms.get(term.partition) is term

    def _carry_out(self, term: Term, transaction: Transaction) -> None:
        """Start to write the markers of a decided transaction, and CompleteCommit or CompleteAbort after them."""
        transition = transaction.finish(self._now_ms())
        self._ended[transaction] = asyncio.get_running_loop().create_future()
        self._markers.send(
            Ending(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                term.epoch,
                committed=transition.state is TransactionState.COMPLETE_COMMIT,
                missing=transaction.partitions,
                is_current=partial(self._is_current, term),
                on_written=lambda: self._start_task(self._note_end(term, transaction, transition)),
                on_given_up=lambda: self._has_ended(transaction),
            )
        )

    async def _note_end(self, term: Term, transaction: Transaction, transition: Transition) -> None:
        try:
            await self._write_end(term, transaction, transition)
        finally:
            self._has_ended(transaction)

    def _has_ended(self, transaction: Transaction) -> None:
        """Wake the requests that wait for a decided transaction to end.

        Called when its end is written, when the term is over, and when a newer producer or coordinator has fenced it.
        """
        ended = self._ended.pop(transaction, None)
        if ended is not None and not ended.done():
            ended.set_result(None)

    async def _write_end(self, term: Term, transaction: Transaction, transition: Transition) -> None:
        """Write the end of a transaction; retry after any error until the term is over, since no client retries it."""
        retries = Retries(self._backoff)
        while self._is_current(term):
            try:
                await self._write(term, transaction, transition, is_retried=True)
                return
            except RequestError as error:
                level = retries.log_level(logging.INFO)
                logger.log(level, "the end of %s is not written yet: %s", transaction.transactional_id, error.code.name)
            await retries.wait()

    # -- time ----------------------------------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort the transactions that have exceeded their timeout, and fence their producers."""
        now_ms = self._now_ms()
        for term in self._terms.values():
            for transaction in term.transactions.values():
                if transaction.has_timed_out(now_ms):
                    self._start_task(self._abort(term, transaction, transaction.fence(now_ms)))

    async def _abort(self, term: Term, transaction: Transaction, transition: Transition) -> None:
        try:
            await self._write(term, transaction, transition)
        except RequestError as error:
            logger.warning("%s has timed out and cannot be aborted: %s", transaction.transactional_id, error.code.name)
        else:
            logger.info("the transaction of %s has timed out and is aborted", transaction.transactional_id)

    def forget_expired(self) -> None:
        """Remove the transactional ids that have not been used for transactional.id.expiration.ms, by tombstones."""
        now_ms = self._now_ms()
        for term in list(self._terms.values()):
            expired: list[Transaction] = []
            builder = RecordBatchBuilder()
            for transaction in list(term.transactions.values()):
                if not transaction.has_expired(now_ms, self._config.transactional_id_expiration_ms):
                    continue
                transaction.expire()
                expired.append(transaction)
                builder.append(now_ms, encode_key(transaction.transactional_id), None)
                if builder.size_estimate >= MAX_TOMBSTONES_BYTES:
                    self._forget(term, expired, builder.build())
                    expired, builder = [], RecordBatchBuilder()
            if expired:
                self._forget(term, expired, builder.build())

    def _forget(self, term: Term, expired: list[Transaction], tombstones: bytearray) -> None:
        def finish(appended: Appended) -> None:
            for transaction in expired:
                if appended.error is ErrorCode.NONE:
                    term.transactions.pop(transaction.transactional_id, None)
                else:
                    transaction.cancel()
            if appended.error is not ErrorCode.NONE:
                logger.warning(
                    "%d transactional ids have expired and cannot be removed: %s", len(expired), appended.error.name
                )

        self._log.write(term.partition, term.epoch, tombstones, self._config.request_timeout_ms, finish)

    # -- terms ---------------------------------------------------------------------------------------------------------

    def _elected(self, partition: int, epoch: int) -> None:
        term = self._terms[partition] = Term(partition, epoch)
        self._start_task(self._load(term))

    def _resigned(self, partition: int) -> None:
        for transaction in self._terms.pop(partition).transactions.values():
            self._has_ended(transaction)

    async def _load(self, term: Term) -> None:
        transactions = await self._log.replay(term.partition, term.epoch, self._read)
        if transactions is None or not self._is_current(term):
            return
        term.transactions = transactions
        term.is_loading = False
        for transaction in transactions.values():
            if transaction.is_decided:
                self._carry_out(term, transaction)
        if transactions:
            logger.info("%d transactional ids of %s-%d", len(transactions), self._log.topic, term.partition)

    async def _read(self, batches: Batches) -> dict[str, Transaction]:
        transactions: dict[str, Transaction] = {}
        async for batch in batches:
            if isinstance(batch, RecordBatch) and batch.is_control:
                continue
            self._take_over(batch, transactions)
        return transactions

    def _take_over(self, batch: RecordBatch | LegacyMessage, transactions: dict[str, Transaction]) -> None:
        """Apply the records of a batch. A record that cannot be decoded is logged and skipped, the others are used."""
        for record in batch.records():
            try:
                transactional_id = decode_key(record.key)
                if transactional_id is None:
                    logger.warning("a record of an unknown kind in %s is ignored", self._log.topic)
                elif record.value is None:
                    transactions.pop(transactional_id, None)
                else:
                    transactions[transactional_id] = decode_value(transactional_id, record.value)
            except ProtocolError as error:
                logger.error("%s, offset %d: a record is ignored: %s", self._log.topic, record.offset, error)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")


async def _repeat(interval_ms: int, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        work()

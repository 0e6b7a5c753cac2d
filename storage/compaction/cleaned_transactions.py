"""Which batches of a log that is compacted belong to aborted transactions, and which markers have become useless.

Fed with every batch in the order of the log, and with the aborted transactions of the part that comes next. Data of an
aborted transaction goes at once; a marker may go when no batch of its transaction was met before it. The entries of the
transaction index whose marker still has data in front of it are kept. Source: KIP-98 as Kafka 3.9 does it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from protocol.control_records import ControlRecordType, decode_control_key
from protocol.record_batch import RecordBatch
from storage.producers.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions that are under way at the place in the log that was reached."""

    __slots__ = ("_aborted", "_committed", "_seen", "_upcoming", "keep")

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, AbortedTransaction]] = []  # a heap by first offset
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer id
        self._seen: set[int] = set()  # producers of `_aborted` of whose transaction a batch was met
        self._committed: set[int] = set()  # producers with a batch of a transaction that is not aborted
        self.keep: Callable[[AbortedTransaction], None] | None = None
        """Takes the aborted transactions that stay in the index."""

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """The aborted transactions that overlap what comes next; some may have been given before."""
        for transaction in transactions:
            heapq.heappush(self._upcoming, (transaction.first_offset, transaction))

    def _begin_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            transaction = heapq.heappop(self._upcoming)[1]
            self._aborted.setdefault(transaction.producer_id, transaction)

    def on_data(self, batch: RecordBatch) -> bool:
        """A data batch has been reached: whether it belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def on_control(self, batch: RecordBatch) -> bool:
        """A control batch has been reached: whether nothing needs it any more.

        Raises InvalidRecordError where its record is malformed.
        """
        self._begin_up_to(batch.last_offset)
        record = next(iter(batch.records()), None)
        if record is None:
            return True
        kind = decode_control_key(record.key)
        producer_id = batch.producer_id
        if kind is ControlRecordType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            if self.keep is not None:
                self.keep(transaction)
            return False
        if kind is ControlRecordType.COMMIT:
            useless = producer_id not in self._committed
            self._committed.discard(producer_id)
            return useless
        return False

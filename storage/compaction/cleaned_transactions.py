"""Transactions during a compaction: which batches belong to aborted transactions, and which markers are obsolete.

The caller passes every batch in the order of the log, and the aborted transactions of the part that follows. Data of
an aborted transaction is removed at once. A marker is obsolete if no batch of its transaction was found before it. The
entries of the transaction index are kept for the markers that still have data before them. See KIP-98, as in Kafka 3.9.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from protocol.control_records import ControlRecordType, decode_control_key
from protocol.record_batch import RecordBatch
from storage.producers.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions that are open at the current position in the log."""

    __slots__ = ("_aborted", "_committed", "_seen", "_upcoming", "keep")

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, AbortedTransaction]] = []  # a heap by first offset
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer id
        self._seen: set[int] = set()  # producers in `_aborted` with a batch of that transaction
        self._committed: set[int] = set()  # producers with a batch of a transaction that is not aborted
        self.keep: Callable[[AbortedTransaction], None] | None = None
        """Called with each aborted transaction that stays in the transaction index."""

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions that overlap the next part of the log; duplicates are allowed."""
        for transaction in transactions:
            heapq.heappush(self._upcoming, (transaction.first_offset, transaction))

    def _begin_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            transaction = heapq.heappop(self._upcoming)[1]
            self._aborted.setdefault(transaction.producer_id, transaction)

    def on_data(self, batch: RecordBatch) -> bool:
        """Process the next data batch; return whether it belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def on_control(self, batch: RecordBatch) -> bool:
        """Process the next control batch; return whether it is obsolete.

        Raises InvalidRecordError if its record is malformed.
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

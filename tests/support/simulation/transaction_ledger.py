"""The rules of transactions, checked against the observations of producers and readers.

A transaction writes one value to each of its partitions and commits its number as the offset of its producer's group.
One that was answered "committed" is visible whole, and its offset counts; one whose commit was never asked for is
visible nowhere; one without an answer is all or nothing. Nothing is visible before its commit was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from support.simulation.ledger import BrokenPromiseError


class End(Enum):
    """The outcome of a transaction as known to its producer."""

    NOT_ASKED = "its commit was never asked for"
    UNKNOWN = "its commit was asked for, nobody knows whether it was"
    COMMITTED = "committed"


@dataclass(eq=False)
class SimulatedTransaction:
    """One transaction. `number` counts from 1 for each transactional id; values are unique."""

    transactional_id: str
    number: int
    partitions: list[int]
    offset_sent: bool = False
    end: End = End.NOT_ASKED
    written: set[int] = field(default_factory=set)
    """Partitions whose leader has acknowledged the value."""

    @property
    def value(self) -> bytes:
        """The values that it writes."""
        return f"{self.transactional_id}/{self.number}".encode()


class TransactionLedger:
    """All transactions of a run."""

    def __init__(self) -> None:
        self.transactions: dict[bytes, SimulatedTransaction] = {}
        self.seen: dict[int, list[bytes]] = {}
        """By partition: what the reader of committed data was given, in order."""

    def begin(self, transactional_id: str, number: int, partitions: list[int]) -> SimulatedTransaction:
        """Record that a producer begins a transaction."""
        transaction = SimulatedTransaction(transactional_id, number, partitions)
        self.transactions[transaction.value] = transaction
        return transaction

    def count(self, end: End) -> int:
        """The number of transactions with this outcome."""
        return sum(one.end is end for one in self.transactions.values())

    def see(self, partition: int, value: bytes) -> None:
        """Record a value that the committed reader received."""
        transaction = self.transactions[value]
        if transaction.end is End.NOT_ASKED:
            raise BrokenPromiseError(f"{value!r} is read as committed, {transaction.end.value}")
        self.seen.setdefault(partition, []).append(value)

    def check(self, content: Mapping[int, list[bytes]], offset_of: Callable[[str], int]) -> None:
        """Everything is mended and ended. content: what is committed, by partition; offset_of: of an id's group."""
        for partition, values in content.items():
            if len(set(values)) != len(values):
                raise BrokenPromiseError(f"partition {partition} has values twice: {values}")
            seen = self.seen.get(partition, [])
            if values[: len(seen)] != seen:
                raise BrokenPromiseError(f"partition {partition}: readers were given {seen}, it holds {values}")
        offsets: dict[str, int] = {}
        for value, transaction in self.transactions.items():
            where = {partition for partition, values in content.items() if value in values}
            is_visible = self._is_visible(transaction, where)
            offsets.setdefault(transaction.transactional_id, -1)
            if is_visible and transaction.offset_sent:
                offsets[transaction.transactional_id] = transaction.number
        for transactional_id, expected in offsets.items():
            offset = offset_of(transactional_id)
            if offset != expected:
                raise BrokenPromiseError(f"the offset of {transactional_id} is {offset} and has to be {expected}")

    def _is_visible(self, transaction: SimulatedTransaction, where: set[int]) -> bool:
        name = f"transaction {transaction.value!r} ({transaction.end.value})"
        if transaction.end is End.NOT_ASKED:
            if where:
                raise BrokenPromiseError(f"{name} is visible in partitions {where}")
            return False
        if where and where != set(transaction.partitions):
            raise BrokenPromiseError(f"{name} wrote to {transaction.partitions}, and is visible in {where} only")
        if not where and transaction.end is End.COMMITTED:
            raise BrokenPromiseError(f"{name} is visible nowhere")
        return bool(where)

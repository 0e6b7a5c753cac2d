"""The origin of an append, and the results of appends and reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from storage.log.file_records import FileRecords
from storage.producers.transaction_index import AbortedTransaction


class AppendOrigin(Enum):
    """Who appends to a leader's log: a producer, or one of this broker's coordinators."""

    CLIENT = 0
    COORDINATOR = 1


@dataclass(slots=True, eq=False, repr=False)
class LogAppendInfo:
    """Result of an append. Offsets are inclusive; a duplicate has those of the original batch.

    `log_append_time` is -1 unless the broker set the timestamps. `first_offset` is -1 if nothing was appended.
    `flush_required` is true if flush.messages is reached, so that `Log.flush` is due.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    size_bytes: int
    duplicate: bool = False
    flush_required: bool = False

    @property
    def record_count(self) -> int:
        """Number of records appended; 0 for a duplicate."""
        return 0 if self.duplicate or self.first_offset < 0 else self.last_offset - self.first_offset + 1

    def __repr__(self) -> str:
        kind = "duplicate, " if self.duplicate else ""
        return f"LogAppendInfo({kind}offsets={self.first_offset}..{self.last_offset}, size={self.size_bytes})"


@dataclass(slots=True, eq=False)
class LogReadInfo:
    """Result of a read. `records` is a range of one segment file, or None if there is nothing to read.

    `first_batch_incomplete` is true if the first batch exceeds max_bytes and the caller did not ask for a whole batch.
    `aborted_transactions` is None unless the caller asked for it.
    """

    records: FileRecords | None
    first_batch_incomplete: bool = False
    aborted_transactions: list[AbortedTransaction] | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.records) if self.records is not None else 0

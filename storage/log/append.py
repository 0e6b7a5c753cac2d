"""What goes into an append and what comes out of it and of a read."""

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
    """Outcome of an append. Offsets are inclusive; of a duplicate they are those of the first time.

    `log_append_time` is -1 unless the broker set the timestamps. `first_offset` is -1 if nothing was
    appended. `flush_required` says that flush.messages is reached: `Log.flush` is due.
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
        """Records appended now: 0 for a duplicate."""
        return 0 if self.duplicate or self.first_offset < 0 else self.last_offset - self.first_offset + 1

    def __repr__(self) -> str:
        kind = "duplicate, " if self.duplicate else ""
        return f"LogAppendInfo({kind}offsets={self.first_offset}..{self.last_offset}, size={self.size_bytes})"


@dataclass(slots=True, eq=False)
class LogReadInfo:
    """Outcome of a read. `records` is a range of one segment file, None if there is nothing to read.

    `first_batch_incomplete`: the first batch did not fit into max_bytes and is cut, because the caller did
    not ask for it whole. `aborted_transactions` is None unless asked for.
    """

    records: FileRecords | None
    first_batch_incomplete: bool = False
    aborted_transactions: list[AbortedTransaction] | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.records) if self.records is not None else 0

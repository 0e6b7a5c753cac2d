"""The journal of one client: a line of JSON an event, written at once, so that SIGKILL takes nothing from it.

A line is [nanoseconds, event, …]. What is going to be done is written before, what was answered after; so the last line
of a killed client says what it may have done.

    init ID | ready                             a producer begins
    begin | plain [IDEMPOTENT]                  a transaction; a record that is a transaction by itself
    input TOPIC PARTITION OFFSET VALUE          read in the transaction
    send TOPIC PARTITION VALUE | ack VALUE OFFSET
    epoch AT_NS NUMBER                          the producer's epoch at this time
    offsets GROUP [[TOPIC, PARTITION, OFFSET]…] sent to the transaction
    commit | committed
    read COMMITTED FOLLOWS                      a reader begins
    kept GROUP [[TOPIC, PARTITION, OFFSET]…]    a commit without a transaction was acknowledged
    position GROUP ASKED_NS [[TOPIC, PARTITION, OFFSET]…]
    seek, end TOPIC PARTITION OFFSET | reset TOPIC PARTITION
    poll [[TOPIC, PARTITION, OFFSET, VALUE]…]

Everything else is for people.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from support.transfers.history import (
    Committed,
    End,
    History,
    Outcome,
    Poll,
    Reader,
    Record,
    Reset,
    Seek,
    Start,
    Transaction,
    Write,
)


class Journal:
    """Writes one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, event: str, *details: object) -> None:
        """One line. One call of the system: nothing of it is left in the process."""
        os.write(self._file, json.dumps([time.monotonic_ns(), event, *details]).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_journals(paths: Iterable[Path]) -> History:
    """The history that the journals of all clients tell. A client has the name of its file."""
    history = History()
    for path in paths:
        _Telling(path.stem, history).tell(lines_of(path))
    return history


def lines_of(path: Path) -> Iterator[list[Any]]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)


class _Telling:
    """One journal on its way to a history."""

    def __init__(self, client: str, history: History) -> None:
        self._client = client
        self._history = history
        self._number = 0
        self._start: Start | None = None
        self._transaction: Transaction | None = None
        self._reader: Reader | None = None
        self._writes: dict[str, tuple[Transaction, Write]] = {}
        self._epoch: tuple[int, int] | None = None  # when it was last known, and the number

    def tell(self, lines: Iterable[list[Any]]) -> None:
        for when, event, *details in lines:
            method = getattr(self, f"_on_{event}", None)
            if method is not None:
                method(when, *details)

    # -- producers ---------------------------------------------------------------------------------------------------

    def _on_init(self, when: int, transactional_id: str) -> None:
        assert self._start is None, "a life of a producer has a journal of its own"
        self._start = Start(self._client, transactional_id, when)
        self._history.starts.append(self._start)

    def _on_ready(self, when: int) -> None:
        assert self._start is not None
        self._start.ready_ns = when

    def _on_begin(self, when: int) -> None:
        assert self._start is not None
        self._begin(when, self._start.transactional_id)

    def _begin(self, when: int, transactional_id: str | None) -> Transaction:
        self._transaction = Transaction(self._client, self._number, transactional_id, when)
        self._number += 1
        self._history.transactions.append(self._transaction)
        return self._transaction

    def _on_plain(self, when: int, is_idempotent: bool = True) -> None:
        transaction = self._begin(when, None)
        transaction.is_idempotent = is_idempotent
        transaction.ending_ns = when
        transaction.outcome = Outcome.UNKNOWN

    def _on_input(self, _when: int, topic: str, partition: int, offset: int, value: str) -> None:
        assert self._transaction is not None
        self._transaction.inputs.append(Record((topic, partition), offset, value))

    def _on_send(self, when: int, topic: str, partition: int, value: str) -> None:
        assert self._transaction is not None
        write = Write((topic, partition), value, when)
        self._transaction.writes.append(write)
        self._writes[value] = self._transaction, write

    def _on_ack(self, when: int, value: str, offset: int | None) -> None:
        transaction, write = self._writes[value]
        write.offset = offset
        if transaction.transactional_id is None:
            transaction.outcome, transaction.ended_ns = Outcome.OK, when

    def _on_epoch(self, _when: int, at_ns: int, number: int) -> None:
        """Records that were in flight when the epoch rose may have been written twice, with both epochs."""
        if self._epoch is not None and number > self._epoch[1] >= 0:
            for transaction, _ in self._writes.values():
                if transaction.ended_ns is None or transaction.ended_ns > self._epoch[0]:
                    transaction.is_idempotent = False
        self._epoch = at_ns, number

    def _on_offsets(self, _when: int, group: str, offsets: list[tuple[str, int, int]]) -> None:
        assert self._transaction is not None
        self._transaction.group = group
        self._transaction.offsets = {(topic, partition): offset for topic, partition, offset in offsets}

    def _on_commit(self, when: int) -> None:
        assert self._transaction is not None
        self._transaction.ending_ns = when
        self._transaction.outcome = Outcome.UNKNOWN

    def _on_committed(self, when: int) -> None:
        assert self._transaction is not None
        self._transaction.ended_ns = when
        self._transaction.outcome = Outcome.OK

    # -- readers -----------------------------------------------------------------------------------------------------

    def _on_read(self, _when: int, committed: bool, follows: bool) -> None:
        self._reader = Reader(self._client, committed, follows=follows)
        self._history.readers.append(self._reader)

    def _on_kept(self, when: int, group: str, offsets: list[tuple[str, int, int]]) -> None:
        self._history.commits += [Committed(group, (topic, number), offset, when) for topic, number, offset in offsets]

    def _on_position(self, _when: int, group: str, asked: int, offsets: list[tuple[str, int, int]]) -> None:
        self._history.positions += [
            Committed(group, (topic, number), offset, asked) for topic, number, offset in offsets
        ]

    def _on_seek(self, _when: int, topic: str, partition: int, offset: int) -> None:
        assert self._reader is not None
        self._reader.events.append(Seek((topic, partition), offset))

    def _on_end(self, _when: int, topic: str, partition: int, offset: int) -> None:
        assert self._reader is not None
        self._reader.events.append(End((topic, partition), offset))

    def _on_reset(self, _when: int, topic: str, partition: int) -> None:
        assert self._reader is not None
        self._reader.events.append(Reset((topic, partition)))

    def _on_poll(self, when: int, records: list[tuple[str, int, int, str]]) -> None:
        assert self._reader is not None
        found = [Record((topic, partition), offset, value) for topic, partition, offset, value in records]
        self._reader.events.append(Poll(when, found))

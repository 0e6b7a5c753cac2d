"""A record with what the log knows about it: its batch, and the state of its transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from client.admin.records import LogPiece
from protocol.control_records import ControlRecordType, decode_control_key
from protocol.errors import ProtocolError
from protocol.message_set import LegacyMessage
from protocol.record import Header, Record
from protocol.record_batch import NO_SEQUENCE, RecordBatch, increment_sequence

MAX_DECOMPRESSED: Final = 64 * 1024 * 1024
"""Bytes of the records of one batch."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"


class Batch(NamedTuple):
    """The batch of a record, as its header describes it."""

    base_offset: int
    last_offset: int
    record_count: int
    size_bytes: int
    compression: str
    producer_id: int
    """-1 without one."""
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    magic: int


class StoredRecord(NamedTuple):
    """A record. `state` is that of its transaction; None if it has none. `error`: the batch cannot be read."""

    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    state: str | None
    batch: Batch
    error: str | None = None

    @property
    def sequence(self) -> int:
        """The sequence number; -1 without one."""
        if self.batch.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.batch.base_sequence, self.offset - self.batch.base_offset)


def records_of(piece: LogPiece, partition: int, *, read_committed: bool) -> Iterator[StoredRecord]:
    """Yield the records of a piece of a log, also those of aborted and open transactions.

    read_committed: how the piece was read. If it was not, transactions without a marker in the piece are open.
    """
    states = _aborted_or_committed(piece) if read_committed else _open_or_ended(piece)
    for batch, state in zip(piece.batches, states, strict=True):
        if not batch.is_control:
            yield from _records(batch, partition, state)


def _aborted_or_committed(piece: LogPiece) -> list[str | None]:
    """Return the state of the transaction of each batch, as consumers find it (KIP-98)."""
    states: list[str | None] = []
    waiting = sorted(piece.aborted, key=lambda pair: pair[1])
    aborting: set[int] = set()
    for batch in piece.batches:
        while waiting and waiting[0][1] <= batch.last_offset:
            aborting.add(waiting.pop(0)[0])
        if isinstance(batch, LegacyMessage) or not batch.is_transactional:
            states.append(None)
            continue
        states.append(ABORTED if batch.producer_id in aborting else COMMITTED)
        if batch.is_control and _marker(batch) == ControlRecordType.ABORT:
            aborting.discard(batch.producer_id)
    return states


def _open_or_ended(piece: LogPiece) -> list[str | None]:
    """Return the state of the transaction of each batch by the markers that follow it."""
    states: list[str | None] = []
    ends: dict[int, str] = {}
    for batch in reversed(piece.batches):
        if isinstance(batch, LegacyMessage) or not batch.is_transactional:
            states.append(None)
            continue
        if batch.is_control:
            ends[batch.producer_id] = ABORTED if _marker(batch) == ControlRecordType.ABORT else COMMITTED
        states.append(ends.get(batch.producer_id, OPEN))
    return states[::-1]


def _marker(batch: RecordBatch) -> ControlRecordType | None:
    try:
        return decode_control_key(next((record.key for record in batch.records(MAX_DECOMPRESSED)), None))
    except ProtocolError:
        return None


def _records(batch: RecordBatch | LegacyMessage, partition: int, state: str | None) -> Iterator[StoredRecord]:
    kind = int(batch.timestamp_type)
    try:
        about = _about(batch)
        for one in batch.records(MAX_DECOMPRESSED):
            yield _stored(one, partition, kind, state, about)
    except ProtocolError as error:
        broken, text = _about(batch, compression="unknown"), f"the batch cannot be read: {error}"
        yield StoredRecord(partition, batch.last_offset, -1, kind, None, None, (), state, broken, text)


def _stored(one: Record, partition: int, kind: int, state: str | None, about: Batch) -> StoredRecord:
    return StoredRecord(partition, one.offset, one.timestamp, kind, one.key, one.value, one.headers, state, about)


def _about(batch: RecordBatch | LegacyMessage, compression: str | None = None) -> Batch:
    compression = compression or batch.compression.name.lower()
    if isinstance(batch, LegacyMessage):
        return Batch(batch.offset, batch.offset, 1, batch.size_bytes, compression, -1, -1, NO_SEQUENCE, -1, batch.magic)
    return Batch(
        batch.base_offset,
        batch.last_offset,
        batch.record_count,
        batch.size_bytes,
        compression,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.partition_leader_epoch,
        batch.magic,
    )

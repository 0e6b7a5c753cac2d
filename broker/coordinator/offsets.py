"""The offsets that one group has committed, those that are being written, and those of open transactions.

An offset is written to the log before it counts, so a commit is begun, and finished when its record is committed. Where
two commits of a partition are under way, the one that lies later in the log wins, whichever finishes first.
Offsets of a transaction wait for its marker. No I/O and no clock. Source: GroupMetadata of 3.9; KIP-98, KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from protocol.record import NO_TIMESTAMP

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """What was committed for a partition. Timestamps in ms; -1 for no leader epoch and no expiry of its own."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    log_offset: int = -1
    """Where the record lies in the log: of its batch the first offset."""


Offsets = Mapping[TopicPartition, CommittedOffset]


class GroupOffsets:
    """All offsets of one group."""

    __slots__ = ("_pending", "_transactional", "committed")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, CommittedOffset] = {}
        self._transactional: dict[int, dict[TopicPartition, CommittedOffset]] = {}

    @property
    def is_empty(self) -> bool:
        """True where nothing is committed, and nothing may come to be."""
        return not (self.committed or self._pending or self._transactional)

    @property
    def producers(self) -> Collection[int]:
        """The producers that have offsets in an open transaction."""
        return self._transactional.keys()

    def is_unstable(self, partition: TopicPartition) -> bool:
        """True while a commit of this partition is under way or waits for the end of a transaction (KIP-447)."""
        if partition in self._pending:
            return True
        return any(partition in offsets for offsets in self._transactional.values())

    # -- commits -----------------------------------------------------------------------------------------------------

    def begin(self, offsets: Offsets) -> None:
        """These are being written."""
        self._pending.update(offsets)

    def finish(self, offsets: Offsets, log_offset: int) -> None:
        """These were written at `log_offset`. What was deleted meanwhile stays deleted."""
        for partition, offset in offsets.items():
            pending = self._pending.get(partition)
            if pending is None:
                continue
            self._commit(partition, offset._replace(log_offset=log_offset))
            if pending is offset:
                del self._pending[partition]

    def fail(self, offsets: Offsets) -> None:
        """These were not written."""
        for partition, offset in offsets.items():
            if self._pending.get(partition) is offset:
                del self._pending[partition]

    def _commit(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        known = self.committed.get(partition)
        if known is None or known.log_offset < offset.log_offset:
            self.committed[partition] = offset

    # -- commits of transactions -------------------------------------------------------------------------------------

    def begin_transactional(self, producer_id: int, offsets: Offsets) -> None:
        """These are being written as part of a producer's transaction."""
        self._transactional.setdefault(producer_id, {}).update(offsets)

    def finish_transactional(self, producer_id: int, offsets: Offsets, log_offset: int) -> None:
        """These were written at `log_offset`, and wait for the marker."""
        waiting = self._transactional.get(producer_id, {})
        for partition, offset in offsets.items():
            if waiting.get(partition) is offset:
                waiting[partition] = offset._replace(log_offset=log_offset)

    def fail_transactional(self, producer_id: int, offsets: Offsets) -> None:
        """These were not written."""
        waiting = self._transactional.get(producer_id, {})
        for partition, offset in offsets.items():
            if waiting.get(partition) is offset:
                del waiting[partition]
        if not waiting:
            self._transactional.pop(producer_id, None)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A marker ended the producer's transaction: its offsets count from now on, or never."""
        waiting = self._transactional.pop(producer_id, {})
        if committed:
            for partition, offset in waiting.items():
                self._commit(partition, offset)

    # -- loading, deletion, expiry -----------------------------------------------------------------------------------

    def restore(self, committed: Offsets, transactional: Mapping[int, Offsets]) -> None:
        """Take what was read from the log."""
        self.committed.update(committed)
        for producer_id, offsets in transactional.items():
            self._transactional[producer_id] = dict(offsets)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these, committed or not; which of them were committed."""
        removed = []
        for partition in partitions:
            self._pending.pop(partition, None)
            for waiting in self._transactional.values():
                waiting.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                removed.append(partition)
        return removed

    def expired(
        self, now_ms: int, retention_ms: int, since_ms: int | None = None, in_use: Collection[str] = ()
    ) -> list[TopicPartition]:
        """The partitions whose offsets are not kept any longer.

        retention_ms: how long they are kept after `since_ms`, or each after its commit where that is None. An offset
        with an expiry of its own (old clients) goes by that. in_use: topics whose offsets are kept. What is being
        committed is kept.
        """
        gone = []
        for partition, offset in self.committed.items():
            if partition[0] in in_use or partition in self._pending:
                continue
            if offset.expire_timestamp != NO_TIMESTAMP:
                is_over = now_ms >= offset.expire_timestamp
            else:
                is_over = now_ms - (offset.commit_timestamp if since_ms is None else since_ms) >= retention_ms
            if is_over:
                gone.append(partition)
        return gone

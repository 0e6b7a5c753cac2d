"""The offsets of one group: committed, being written, and in open transactions.

A commit counts when its record is committed to the log, so it has two steps, `begin` and `finish`. Of two concurrent
commits of a partition, the one with the higher offset in the log wins, whichever finishes first. Offsets of a
transaction wait for its marker. No I/O and no clock. Source: GroupMetadata of 3.9; KIP-98, KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from protocol.record import NO_TIMESTAMP

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """A committed offset of a partition. Timestamps are in ms; -1 means no leader epoch, or no expire timestamp."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    log_offset: int = -1
    """The first offset of the batch that contains the record."""


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
        """True if no offset is committed, being written, or part of an open transaction."""
        return not (self.committed or self._pending or self._transactional)

    @property
    def producers(self) -> Collection[int]:
        """The producers that have offsets in an open transaction."""
        return self._transactional.keys()

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Return whether a commit of this partition is being written, or waits for a transaction to end (KIP-447)."""
        if partition in self._pending:
            return True
        return any(partition in offsets for offsets in self._transactional.values())

    # -- commits -----------------------------------------------------------------------------------------------------

    def begin(self, offsets: Offsets) -> None:
        """Note that these offsets are being written."""
        self._pending.update(offsets)

    def finish(self, offsets: Offsets, log_offset: int) -> None:
        """Commit these offsets, whose batch begins at `log_offset`. Skip those that were deleted meanwhile."""
        for partition, offset in offsets.items():
            pending = self._pending.get(partition)
            if pending is None:
                continue
            self._commit(partition, offset._replace(log_offset=log_offset))
            if pending is offset:
                del self._pending[partition]

    def fail(self, offsets: Offsets) -> None:
        """Drop these offsets, which could not be written."""
        for partition, offset in offsets.items():
            if self._pending.get(partition) is offset:
                del self._pending[partition]

    def _commit(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        known = self.committed.get(partition)
        if known is None or known.log_offset < offset.log_offset:
            self.committed[partition] = offset

    # -- commits of transactions -------------------------------------------------------------------------------------

    def begin_transactional(self, producer_id: int, offsets: Offsets) -> None:
        """Note that these offsets are in the log as part of a producer's transaction. They wait for its marker.

        They do so even if they are not replicated in time: the producer repeats its request, and another coordinator
        would find them in the log, too.
        """
        self._transactional.setdefault(producer_id, {}).update(offsets)

    def end_transaction(self, producer_id: int, marker_offset: int, *, committed: bool) -> bool:
        """End the producer's transaction: commit its offsets if `committed`, otherwise drop them.

        marker_offset: where its marker is in the log. Offsets after it are of the producer's next transaction: a marker
        that was written again may be told late. Return whether there are any.
        """
        waiting = self._transactional.pop(producer_id, {})
        left: dict[TopicPartition, CommittedOffset] = {}
        for partition, offset in waiting.items():
            if offset.log_offset > marker_offset:
                left[partition] = offset
            elif committed:
                self._commit(partition, offset)
        if left:
            self._transactional[producer_id] = left
        return bool(left)

    # -- loading, deletion, expiry -----------------------------------------------------------------------------------

    def restore(self, committed: Offsets, transactional: Mapping[int, Offsets]) -> None:
        """Add the offsets that were read from the log."""
        self.committed.update(committed)
        for producer_id, offsets in transactional.items():
            self._transactional[producer_id] = dict(offsets)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove the offsets of these partitions, committed or not. Return the partitions that were committed."""
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
        """Return the partitions whose offsets have expired.

        An offset expires `retention_ms` after `since_ms`, or after its commit if `since_ms` is None. If it has an
        expire timestamp (old clients), that counts instead. Offsets of the topics `in_use`, and those of partitions
        for which a commit is being written, do not expire.
        """
        expired = []
        for partition, offset in self.committed.items():
            if partition[0] in in_use or partition in self._pending:
                continue
            if offset.expire_timestamp != NO_TIMESTAMP:
                is_over = now_ms >= offset.expire_timestamp
            else:
                is_over = now_ms - (offset.commit_timestamp if since_ms is None else since_ms) >= retention_ms
            if is_over:
                expired.append(partition)
        return expired

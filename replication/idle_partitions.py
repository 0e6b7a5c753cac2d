"""Partitions that a fetch session skips: its client knows their state, and they have not changed since.

A follower has one session for all partitions of a leader, thousands of them, and fetches again after every record of a
busy one. Reading each partition for each of these requests would cost milliseconds. A partition is *idle* in a session
whose reader is at its end and knows its high watermark and log start offset. A change of the partition wakes it.

An in-sync follower is caught up with an idle partition as long as it sends requests. Waking the partition records
that: the follower was caught up until its last request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from replication.fetch import FetchPartition
    from replication.in_sync_replicas import InSyncReplicas

TopicPartition = tuple[str, int]


class Reader(Protocol):
    """A fetch session, as far as idle partitions concern it."""

    last_fetch_ms: int
    """When its last request came, by the clock of `LagRules`."""

    replica_id: int
    """The broker id of the follower, or CONSUMER."""

    def __hash__(self) -> int: ...

    @property
    def has_idle(self) -> bool:
        """Whether any partition is idle in the session."""
        ...

    def wanted(self) -> Sequence[FetchPartition]:
        """Return the partitions to read, in the order of reading: those that are not idle."""
        ...

    def woken(self, key: TopicPartition) -> None:
        """Read a partition again: it was idle, and has changed."""
        ...


class IdlePartitions:
    """The sessions in which each partition is idle."""

    def __init__(self) -> None:
        self._readers: dict[TopicPartition, dict[Reader, InSyncReplicas | None]] = {}

    def __contains__(self, key: TopicPartition) -> bool:
        """True while the partition is idle in any session."""
        return key in self._readers

    def add(self, key: TopicPartition, reader: Reader, sync: InSyncReplicas | None) -> None:
        """Mark a partition as idle in the session `reader`. sync: the leader's replicas if the reader is a follower."""
        self._readers.setdefault(key, {})[reader] = sync

    def remove(self, key: TopicPartition, reader: Reader) -> None:
        """Mark a partition as no longer idle in the session `reader`, without waking it."""
        readers = self._readers.get(key)
        if readers is not None and reader in readers:
            _note_progress(reader, readers.pop(reader))
            if not readers:
                del self._readers[key]

    def wake(self, key: TopicPartition) -> Iterable[Reader]:
        """Wake a partition in all sessions in which it is idle, and return the sessions."""
        readers = self._readers.pop(key, {})
        for reader, sync in readers.items():
            _note_progress(reader, sync)
            reader.woken(key)
        return readers


def _note_progress(reader: Reader, sync: InSyncReplicas | None) -> None:
    if sync is not None:
        sync.progress[reader.replica_id].was_caught_up(reader.last_fetch_ms)

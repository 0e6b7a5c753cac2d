"""Partitions of fetch sessions that need no look: their readers know all there is, and nothing has happened since.

Followers have one session for all partitions of a leader, thousands of them, and ask again after every record of a busy
one. To read each partition for each of these requests would cost milliseconds. Who is at the end of a partition and has
been told of its high watermark and its start *rests* there: it is woken by whatever happens to the partition.

An in-sync follower that rests is caught up as long as it keeps asking, and when it is woken that is written down: up to
its last request it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from replication.fetch import FetchPartition
    from replication.in_sync_replicas import InSyncReplicas

TopicPartition = tuple[str, int]


class Reader(Protocol):
    """A fetch session, as those see it who wake it."""

    last_fetch_ms: int
    """When its last request came, by the clock of `LagRules`."""

    replica_id: int
    """The follower, or CONSUMER."""

    def __hash__(self) -> int: ...

    @property
    def is_resting(self) -> bool:
        """Whether it rests at any partition."""
        ...

    def wanted(self) -> Sequence[FetchPartition]:
        """What has to be looked at: the partitions that it does not rest at, in the order in which they are read."""
        ...

    def woken(self, key: TopicPartition) -> None:
        """Something has happened to a partition that it rested at."""
        ...


class RestingPartitions:
    """Who rests where."""

    def __init__(self) -> None:
        self._readers: dict[TopicPartition, dict[Reader, InSyncReplicas | None]] = {}

    def __contains__(self, key: TopicPartition) -> bool:
        """True while somebody rests at a partition."""
        return key in self._readers

    def add(self, key: TopicPartition, reader: Reader, sync: InSyncReplicas | None) -> None:
        """`reader` rests at a partition; `sync`, where it is a follower of ours."""
        self._readers.setdefault(key, {})[reader] = sync

    def remove(self, key: TopicPartition, reader: Reader) -> None:
        """`reader` rests there no more, for a reason of its own."""
        readers = self._readers.get(key)
        if readers is not None and reader in readers:
            _note_progress(reader, readers.pop(reader))
            if not readers:
                del self._readers[key]

    def wake(self, key: TopicPartition) -> Iterable[Reader]:
        """Wake those who rest at a partition, and return them."""
        readers = self._readers.pop(key, {})
        for reader, sync in readers.items():
            _note_progress(reader, sync)
            reader.woken(key)
        return readers


def _note_progress(reader: Reader, sync: InSyncReplicas | None) -> None:
    if sync is not None:
        sync.progress[reader.replica_id].was_caught_up(reader.last_fetch_ms)

"""acks=all: delay the answer until the high watermark has passed the appended records.

Every in-sync replica has the records below the high watermark. If the ISR is then smaller than min.insync.replicas,
the producer gets NotEnoughReplicasAfterAppendError: its records are in the log, but acks=all is not fulfilled.

The first outcome of a partition is final, while others are waited for: a log that was truncated under another leader,
and that this broker continues in a later leader epoch, has other records at the same offsets.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocol.uuid import ZERO_UUID
from replication.errors import CommitTimedOutError, NotEnoughReplicasAfterAppendError, ReplicationError
from replication.fetch import GetPartition


class DelayedProduce:
    """Waits until the high watermark of each (topic, partition) reaches the required offset."""

    __slots__ = ("_get_partition", "_outcomes", "_waiting")

    def __init__(self, required: Mapping[tuple[str, int], int], get_partition: GetPartition) -> None:
        self._get_partition = get_partition
        self._outcomes: dict[tuple[str, int], Exception | None] = dict.fromkeys(required)
        """Of the partitions that are not in `_waiting`; None: committed."""
        self._waiting = dict(required)

    def _outcome(self, key: tuple[str, int], required_offset: int) -> Exception | bool | None:
        """Return None if committed, False if not yet committed, an exception if it never will be."""
        try:
            partition = self._get_partition(*key, ZERO_UUID)
            log = partition.leader_log()
        except ReplicationError as error:
            return error
        if log.high_watermark < required_offset:
            return False
        assert partition.sync is not None
        if partition.sync.is_under_min_isr(log.config.min_insync_replicas):
            return NotEnoughReplicasAfterAppendError(f"{key[0]}-{key[1]} has {len(partition.isr)} replicas in sync")
        return None

    def is_satisfied(self) -> bool:
        """See `DelayedOperation`. Every partition is looked at, so that none misses a change of its leader."""
        for key, offset in tuple(self._waiting.items()):
            outcome = self._outcome(key, offset)
            if not isinstance(outcome, bool):
                self._outcomes[key] = outcome
                del self._waiting[key]
        return not self._waiting

    def complete(self) -> dict[tuple[str, int], Exception | None]:
        """Return the outcome of each partition: None if it is committed."""
        if not self.is_satisfied():
            for (topic, partition), offset in self._waiting.items():
                text = f"{topic}-{partition} was not committed up to offset {offset} in time"
                self._outcomes[topic, partition] = CommitTimedOutError(text)
        return self._outcomes

"""acks=all: delay the answer until the high watermark has passed the appended records.

Every in-sync replica has the records below the high watermark. If the ISR is then smaller than min.insync.replicas,
the producer gets NotEnoughReplicasAfterAppendError: its records are in the log, but acks=all is not fulfilled.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocol.uuid import ZERO_UUID
from replication.errors import CommitTimedOutError, NotEnoughReplicasAfterAppendError, ReplicationError
from replication.fetch import GetPartition


class DelayedProduce:
    """Waits until the high watermark of each (topic, partition) reaches the required offset."""

    __slots__ = ("_get_partition", "_required")

    def __init__(self, required: Mapping[tuple[str, int], int], get_partition: GetPartition) -> None:
        self._required = required
        self._get_partition = get_partition

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
        """See `DelayedOperation`."""
        return all(self._outcome(key, offset) is not False for key, offset in self._required.items())

    def complete(self) -> dict[tuple[str, int], Exception | None]:
        """Return the outcome of each partition: None if it is committed."""
        outcomes: dict[tuple[str, int], Exception | None] = {}
        for key, offset in self._required.items():
            outcome = self._outcome(key, offset)
            if isinstance(outcome, bool):
                outcome = CommitTimedOutError(f"{key[0]}-{key[1]} was not committed up to offset {offset} in time")
            outcomes[key] = outcome
        return outcomes

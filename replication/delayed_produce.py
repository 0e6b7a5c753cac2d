"""acks=all: the answer waits until the high watermark has passed what was appended.

An offset that the high watermark has passed is on every in-sync replica; if fewer are in sync by then than
min.insync.replicas asks for, the producer is told so (NotEnoughReplicasAfterAppendError): its records are in the log
but the promise does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocol.uuid import ZERO_UUID
from replication.errors import CommitTimedOutError, NotEnoughReplicasAfterAppendError, ReplicationError
from replication.fetch import GetPartition


class DelayedProduce:
    """Appends that wait to be committed, by (topic, partition): the offset that the high watermark must reach."""

    __slots__ = ("_get_partition", "_required")

    def __init__(self, required: Mapping[tuple[str, int], int], get_partition: GetPartition) -> None:
        self._required = required
        self._get_partition = get_partition

    def _outcome(self, key: tuple[str, int], required_offset: int) -> Exception | bool | None:
        """None: committed. False: not yet. An exception: it will not be."""
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
        """The outcome of each partition: None where it is committed."""
        outcomes: dict[tuple[str, int], Exception | None] = {}
        for key, offset in self._required.items():
            outcome = self._outcome(key, offset)
            if isinstance(outcome, bool):
                outcome = CommitTimedOutError(f"{key[0]}-{key[1]} was not committed up to offset {offset} in time")
            outcomes[key] = outcome
        return outcomes

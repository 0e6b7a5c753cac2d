"""The leader epochs of the records that were read from a partition (KIP-320).

A leader after an unclean election may lack records that were read. So a Fetch request contains the epoch of the last
record that was read, and the response tells where the leader's log diverges. Commits contain the epoch for the next
consumer of the partition.
"""

from collections.abc import Sequence

from protocol.message_set import LegacyMessage
from protocol.record_batch import RecordBatch
from protocol.sentinels import NO_EPOCH


class ReadEpochs:
    """It grows by one pair for each leader change, so it keeps all of them."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        # (first offset, epoch), both ascending.
        self._starts: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        """The epoch of the last batch, -1 if unknown."""
        return self._starts[-1][1] if self._starts else NO_EPOCH

    def begin(self, offset: int, epoch: int) -> None:
        """Start at an offset; `epoch` is that of the record before it, -1 if unknown."""
        self._starts = [(offset - 1, epoch)] if epoch >= 0 else []

    def add(self, batches: Sequence[RecordBatch | LegacyMessage]) -> None:
        """Add fetched batches, in the order of their offsets."""
        last = batches[-1]
        if isinstance(last, LegacyMessage) or last.partition_leader_epoch <= self.latest:
            return  # epochs never decrease in a log, so all batches have the last known epoch or none
        for batch in batches:
            if isinstance(batch, RecordBatch) and batch.partition_leader_epoch > self.latest:
                self._starts.append((batch.base_offset, batch.partition_leader_epoch))

    def before(self, offset: int) -> int:
        """The epoch of the record before an offset, -1 if unknown."""
        return next((epoch for start, epoch in reversed(self._starts) if start < offset), NO_EPOCH)

"""Under which leader epochs the records of a partition were written that have been read (KIP-320).

A leader that was elected uncleanly may not have them: it is told the epoch of the last one and where that is thought to
end, and answers where its log parts from what was read. Commits carry the epoch for whoever reads on.
"""

from collections.abc import Sequence

from protocol.message_set import LegacyMessage
from protocol.record_batch import RecordBatch

UNKNOWN_EPOCH = -1


class ReadEpochs:
    """Grows by one pair for every change of leaders, so nothing of it is thrown away."""

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        # (offset from which on, epoch), both rising.
        self._starts: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        """The epoch of the last batch; -1 where nothing is known."""
        return self._starts[-1][1] if self._starts else UNKNOWN_EPOCH

    def begin(self, offset: int, epoch: int) -> None:
        """Reading goes on at an offset; the record before it was written under `epoch` (-1: unknown)."""
        self._starts = [(offset - 1, epoch)] if epoch >= 0 else []

    def add(self, batches: Sequence[RecordBatch | LegacyMessage]) -> None:
        """These have been fetched, in the order of their offsets."""
        last = batches[-1]
        if isinstance(last, LegacyMessage) or last.partition_leader_epoch <= self.latest:
            return  # epochs never fall in a log: all are of the one that is known, or from before there were any
        for batch in batches:
            if isinstance(batch, RecordBatch) and batch.partition_leader_epoch > self.latest:
                self._starts.append((batch.base_offset, batch.partition_leader_epoch))

    def before(self, offset: int) -> int:
        """The epoch of the record before an offset; -1 where it is not known."""
        return next((epoch for start, epoch in reversed(self._starts) if start < offset), UNKNOWN_EPOCH)

"""Leader epochs of a partition: where each began. Kept in `leader-epoch-checkpoint` ("epoch start-offset"
lines).

A follower finds by them where its log parts from the leader's (KIP-101, KIP-279). Epochs and start offsets
rise strictly together; a new entry removes those that it contradicts.

Writing is not synchronous here: an epoch is derived again from the batches when the log is recovered, so it
is enough that the file is synced before the recovery point moves past (see `Log.flush`). For the same reason a full
disk is no obstacle: the file is written by the next flush that finds room.
"""

from __future__ import annotations

from bisect import bisect_right

from storage.directories.checkpoints import LEADER_EPOCH_CHECKPOINT, format_checkpoint, parse_checkpoint
from storage.errors import CorruptFileError, LogDirIOError
from storage.file_system import FileSystem

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochCache:
    """Epochs with their start offsets, ascending. `latest_epoch` is -1 while there is none."""

    __slots__ = ("_epochs", "_fs", "_starts", "directory", "dirty", "latest_epoch", "unwritten")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.directory = directory
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self.dirty = False  # written since the last fsync, or unwritten
        self.unwritten = False  # the file is behind: the disk was full

    @property
    def path(self) -> str:
        return f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"

    def load(self) -> None:
        """Read the file; a missing one means no epochs. Raises CorruptFileError."""
        try:
            text = self._fs.read_file(self.path).decode(errors="replace")
        except FileNotFoundError:
            return
        if not text.endswith("\n"):
            raise CorruptFileError(self.path, "the last line is cut off")
        entries = []
        for words in parse_checkpoint(text, self.path):
            try:
                epoch, start = words
                entries.append((int(epoch), int(start)))
            except ValueError:
                raise CorruptFileError(self.path, f"malformed line {' '.join(words)!r}") from None
        entries.sort()
        self._set(entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Take these, (epoch, start offset) ascending, for all that are known before."""
        self._set(entries)
        try:
            self.write()
        except LogDirIOError as error:
            if not error.is_disk_full:
                raise
            self.dirty = self.unwritten = True

    def write(self, *, sync: bool = False) -> None:
        """Replace the file. Raises LogDirIOError."""
        data = format_checkpoint(f"{epoch} {start}" for epoch, start in self.entries)
        self._fs.replace_file(self.path, data, sync=sync)
        self.dirty = not sync
        self.unwritten = False

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`. True if that was news; the file is written then.

        The latest epoch again at a later offset says nothing new. Anything else removes the entries that it
        contradicts: epochs not below it, starts not below it.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} from offset {start_offset}")
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return False
        entries = self.entries
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        self.replace(entries)
        return True

    def correct(self, epoch: int, offset: int) -> None:
        """A batch in the log says that `offset` is of `epoch`: forget what contradicts that."""
        if self.epoch_for_offset(offset) != epoch:
            self.truncate_from_end(offset)
            if epoch > self.latest_epoch:
                self.assign(epoch, offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch: the largest known epoch not above `epoch` and where
        it ended.

        (-1, -1) where nothing can be said: an undefined epoch, one newer than all known ones, or none known.
        An epoch before the first known one ends where that begins.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        floor = self._epochs[higher - 1] if higher else epoch
        return floor, self._starts[higher]

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that `offset` was written in; None below the first entry."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else None

    @property
    def earliest(self) -> tuple[int, int] | None:
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at `end_offset` or above."""
        if self._starts and self._starts[-1] >= end_offset >= 0:
            self.replace([entry for entry in self.entries if entry[1] < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended by `start_offset`; the one that it lies in begins there now."""
        slot = bisect_right(self._starts, start_offset)
        if slot > 1 or (slot == 1 and self._starts[0] != start_offset):
            self.replace([(self._epochs[slot - 1], start_offset), *self.entries[slot:]])

    def put_before(self, entries: list[tuple[int, int]]) -> None:
        """Add epochs that began before all that are known (or the beginning of the first of those)."""
        if entries:
            self.replace([*entries, *(entry for entry in self.entries if entry[0] > entries[-1][0])])

    def clear(self) -> None:
        """Forget everything."""
        self.replace([])

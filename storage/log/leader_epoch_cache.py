"""Leader epochs of a partition and their start offsets, as lines of the file `leader-epoch-checkpoint`.

A follower uses them to find where its log diverges from the leader's (KIP-101, KIP-279). Epochs and start offsets are
both strictly ascending; a new entry removes those that contradict it.

The file is written without fsync: recovery derives the epochs from the batches again, so the next flush may sync it
(see `storage.log.flush`). For the same reason a full disk is no error: the next flush that finds room writes the file.

An epoch that begins at the log end has no records, and a start drops it. So a flush does not sync an epoch above the
records that it syncs (`changed_from`), unless a file that was replaced without fsync has earlier epochs, too.
"""

from __future__ import annotations

from bisect import bisect_right

from storage.directories.checkpoints import LEADER_EPOCH_CHECKPOINT, format_checkpoint, parse_checkpoint
from storage.errors import CorruptFileError, LogDirIOError
from storage.file_system import FileSystem

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochCache:
    """Epochs with their start offsets, ascending. `latest_epoch` is -1 if there is none."""

    __slots__ = ("_epochs", "_fs", "_starts", "changed_from", "directory", "latest_epoch", "unwritten")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self.directory = directory
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self.changed_from: int | None = None
        """The lowest offset whose epoch has changed since the last fsync of the file; None if nothing has changed."""
        self.unwritten = False
        """Whether the file is out of date: the disk was full, or a start has dropped epochs without records."""

    @property
    def path(self) -> str:
        return f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"

    def load(self) -> None:
        """Read the file; without a file there are no epochs. Raises CorruptFileError."""
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
        self.changed_from = None

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def _set(self, entries: list[tuple[int, int]]) -> None:
        different = set(entries).symmetric_difference(self.entries)
        self.mark_changed(min((start for _, start in different), default=None))
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def mark_changed(self, offset: int | None) -> None:
        """Note that the epoch of `offset` is not synced; None: nothing has changed."""
        if offset is not None and (self.changed_from is None or offset < self.changed_from):
            self.changed_from = offset

    def is_unsynced_below(self, end_offset: int) -> bool:
        """Whether a power cut could lose what is known about records below `end_offset`."""
        if self.changed_from is None:
            return False
        is_replaced = not self.unwritten  # without fsync: a power cut may leave the file empty
        return self.changed_from < end_offset or (is_replaced and bool(self._starts) and self._starts[0] < end_offset)

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Replace all entries, (epoch, start offset) ascending. Raises LogDirIOError unless the disk is full."""
        self._set(entries)
        self.write_if_room()

    def write_if_room(self) -> None:
        """Replace the file. If the disk is full, a flush does it later. Raises LogDirIOError for other failures."""
        try:
            self.write()
        except LogDirIOError as error:
            if not error.is_disk_full:
                raise
            self.unwritten = True

    def write(self, *, sync: bool = False) -> None:
        """Replace the file. Raises LogDirIOError."""
        data = format_checkpoint(f"{epoch} {start}" for epoch, start in self.entries)
        self._fs.replace_file(self.path, data, sync=sync)
        if sync:
            self.changed_from = None
        self.unwritten = False

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add an entry and write the file. False if `epoch` is the latest one and began at or before it.

        Entries with an epoch or a start offset that is not below the new one are removed.
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

    def correct(self, epoch: int, first_offset: int, last_offset: int) -> None:
        """Make the entries agree with a batch in the log that has this epoch.

        The file may have entries of records that a crash has lost and that others, even of an earlier epoch, replaced.
        """
        slot = bisect_right(self._starts, first_offset)
        is_alone = slot == len(self._starts) or self._starts[slot] > last_offset
        if slot and self._epochs[slot - 1] == epoch and is_alone:
            return
        before = [entry for entry in self.entries[:slot] if entry[0] <= epoch]
        if not before or before[-1][0] < epoch:
            before.append((epoch, first_offset))
        self.replace(before + [entry for entry in self.entries[slot:] if entry[0] > epoch and entry[1] > last_offset])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch: the largest known epoch not above `epoch`, and its end.

        (-1, -1) if `epoch` is undefined or newer than all known ones, or if none is known. An epoch before the first
        known one ends where that begins.
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
        """The epoch in which `offset` was written; None below the first entry."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else None

    @property
    def earliest(self) -> tuple[int, int] | None:
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at `end_offset` or above."""
        if self._starts and self._starts[-1] >= end_offset >= 0:
            self.replace([entry for entry in self.entries if entry[1] < end_offset])

    def drop_from_end(self, end_offset: int) -> None:
        """Remove the epochs without records at a start. The file is written with the next record, not now."""
        if self._starts and self._starts[-1] >= end_offset:
            self._set([entry for entry in self.entries if entry[1] < end_offset])
            self.unwritten = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or below `start_offset`. The epoch of `start_offset` begins there now."""
        slot = bisect_right(self._starts, start_offset)
        if slot > 1 or (slot == 1 and self._starts[0] != start_offset):
            self.replace([(self._epochs[slot - 1], start_offset), *self.entries[slot:]])

    def put_before(self, entries: list[tuple[int, int]]) -> None:
        """Add epochs before the known ones, or an earlier start of the first known one."""
        if entries:
            self.replace([*entries, *(entry for entry in self.entries if entry[0] > entries[-1][0])])

    def clear(self) -> None:
        """Remove all epochs."""
        self.replace([])

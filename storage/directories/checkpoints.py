"""Kafka's checkpoint files: small text files, replaced atomically.

    0                       version of the format
    2                       number of entries
    topic-a 0 4711          one entry per line: topic, partition, offset

`recovery-point-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks), `log-start-offset-checkpoint`
and `cleaner-offset-checkpoint` have this format; the entries of `leader-epoch-checkpoint` are "epoch start-offset".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from storage.errors import CorruptFileError
from storage.file_system import FileSystem

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

_VERSION = 0

TopicPartition = tuple[str, int]


def parse_checkpoint(text: str, path: str) -> list[list[str]]:
    """Return the entries of a checkpoint file as lists of words. Raises CorruptFileError."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise CorruptFileError(path, "the file is empty: the version is missing")
    if lines[0].strip() != str(_VERSION):
        raise CorruptFileError(path, f"unrecognized version {lines[0]!r}, only {_VERSION} is supported")
    if len(lines) < 2 or not lines[1].strip().isascii() or not lines[1].strip().isdigit():
        raise CorruptFileError(path, "the second line is not the number of entries")
    expected = int(lines[1])
    entries = [line.split() for line in lines[2:]]
    if len(entries) != expected:
        raise CorruptFileError(path, f"expected {expected} entries, found {len(entries)}")
    return entries


def format_checkpoint(lines: Iterable[str]) -> bytes:
    """Return the bytes of a checkpoint file with these entries."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(entries)), *entries)).encode()


class OffsetCheckpoint:
    """A checkpoint file of a log directory: one offset per partition."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def is_written(self) -> bool:
        """Whether the file exists and is not empty."""
        return self._fs.exists(self.path) and self._fs.size(self.path) > 0

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets; an empty dict if the file is missing or empty. Raises CorruptFileError.

        Kafka creates its checkpoints as empty files and writes them later, so a broker that was killed may leave them
        empty.
        """
        try:
            text = self._fs.read_file(self.path).decode(errors="replace")
        except FileNotFoundError:
            return {}
        if not text:
            return {}
        offsets = {}
        for words in parse_checkpoint(text, self.path):
            try:
                topic, partition, offset = words
                offsets[topic, int(partition)] = int(offset)
            except ValueError:
                raise CorruptFileError(self.path, f"malformed line {' '.join(words)!r}") from None
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
        """Replace the file atomically. With `sync`, blocks on fsync. Raises LogDirIOError."""
        data = format_checkpoint(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        self._fs.replace_file(self.path, data, sync=sync)

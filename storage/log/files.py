"""The files of one log: its directory, the topic id in it, and which names in it a power cut could still undo."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from storage.errors import InconsistentTopicIdError, InvalidLogDirectoryNameError, LogDirIOError
from storage.file_system import FileSystem
from storage.log import partition_metadata

DELETE_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"

_DELETE_DIRECTORY = re.compile(r"(\S+)-(\S+)\.(\S+)-(?:delete|future|stray)")


def parse_directory_name(name: str) -> tuple[str, int]:
    """(topic, partition) of `<topic>-<partition>` or `<topic>-<partition>.<id>-delete`.

    Raises InvalidLogDirectoryNameError.
    """
    match = _DELETE_DIRECTORY.fullmatch(name)
    topic, dash, partition = (name.rpartition(".")[0] if match else name).rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        raise InvalidLogDirectoryNameError(name)
    return topic, int(partition)


class LogFiles:
    """The directory of a log. All methods belong to the log's thread.

    `directory` is the path, `topic_id` has 16 bytes or is None. `schedule_removal(paths, delay_ms)` removes files
    later; the log manager replaces the default, which removes them at once.
    """

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        """Raises InvalidLogDirectoryNameError."""

        def remove_now(paths: list[str], delay_ms: int) -> None:
            for path in paths:
                fs.remove(path)

        self.fs = fs
        self.directory = directory
        self.topic, self.partition = parse_directory_name(directory.name)
        self.topic_id: bytes | None = None
        self.is_directory_unsynced = False
        """Whether the directory itself, or partition.metadata in it, is new and not synced yet."""
        self.name_changes = 0
        """How often files in the directory were created, renamed or removed."""
        self.synced_name_changes = 0
        self.schedule_removal: Callable[[list[str], int], None] = remove_now

    def make_directory(self) -> None:
        """Create the directory unless it exists. Raises OSError."""
        self.is_directory_unsynced = self.fs.make_directory(str(self.directory))

    def names(self) -> list[str]:
        """The names of the files in the directory. Raises OSError."""
        return [entry.name for entry in self.fs.list_directory(str(self.directory))]

    @property
    def are_names_unsynced(self) -> bool:
        """Whether a power cut could undo the creation, renaming or removal of files in the directory."""
        return self.name_changes != self.synced_name_changes

    def failed(self, error: OSError, *, lost_writes: bool = False) -> LogDirIOError:
        """Report an I/O error of this log; returns the exception to raise."""
        return self.fs.failed(self.directory, error, lost_writes=lost_writes)

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Report an OSError of the block and raise it as LogDirIOError."""
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    def rename(self, directory: Path) -> None:
        """Rename the directory. Raises LogDirIOError."""
        with self.failing():
            self.fs.rename(str(self.directory), str(directory))
        self.directory = directory

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Set the topic id of a log that has none. Raises InconsistentTopicIdError if it has another one."""
        if self.topic_id != topic_id:
            self.load_topic_id(topic_id)

    def load_topic_id(self, topic_id: bytes | None) -> None:
        """Read the topic id from partition.metadata; write `topic_id` there if the log has none.

        Raises InconsistentTopicIdError, CorruptFileError, LogDirIOError.
        """
        stored = partition_metadata.read_topic_id(self.fs, str(self.directory))
        if stored is not None and topic_id is not None and stored != topic_id:
            raise InconsistentTopicIdError(
                f"{self.directory} belongs to topic id {stored.hex()}, not to {topic_id.hex()} of the same name"
            )
        self.topic_id = stored or topic_id
        if stored is None and topic_id is not None:
            partition_metadata.write_topic_id(self.fs, str(self.directory), topic_id)
            self.is_directory_unsynced = True

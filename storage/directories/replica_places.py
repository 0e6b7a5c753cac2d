"""Resolving, at the start, partitions that have directories in several log directories.

- A log and its future log (a copy in another log directory, KIP-113) belong together; the copying continues.
- If two directories have a log of the same name, the broker stopped while the future log replaced the log. The
  directory with `.ottla-moved-from` has the new log; the other one is removed.
- Two logs without that file are a mistake of an operator: the first one is loaded, the second one is left unchanged.
- A future log without its log is ignored and left unchanged. The log may be in an offline directory; if it is not,
  nothing tells how much of it was copied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from storage.directories.checkpoints import TopicPartition
from storage.directories.loader import DirectoryContents, LogInDirectory
from storage.directories.log_directory import LogDirectory
from storage.directories.moved_from import read_moved_from, remove_moved_from
from storage.file_system import FileSystem

logger = logging.getLogger(__name__)

Contents = Mapping[LogDirectory, DirectoryContents]
Place = tuple[LogDirectory, LogInDirectory]


class ReplicaPlaces:
    """Chooses the logs to load; removes the others from the directories' contents."""

    def __init__(
        self,
        fs: FileSystem,
        contents: Contents,
        put_aside: Callable[[LogInDirectory], LogInDirectory],
        on_failure: Callable[[LogDirectory, OSError], None],
    ) -> None:
        """put_aside: renames a directory that is to be deleted. on_failure: called if an I/O operation fails."""
        self._fs = fs
        self._contents = contents
        self._put_aside = put_aside
        self._on_failure = on_failure

    def settle(self) -> None:
        """Leave at most one log and one future log of each partition, in different log directories."""
        places: dict[TopicPartition, Place] = {}
        for directory, contents in self._contents.items():
            for found in list(contents.logs):
                first = places.setdefault(found.key, (directory, found))
                if first[1] is not found:
                    places[found.key] = self._choose(first, (directory, found))
        futures: set[TopicPartition] = set()
        for directory, contents in self._contents.items():
            for found in list(contents.futures):
                if found.key not in places:
                    contents.futures.remove(found)
                    logger.warning("%s: a future log without its log; it is ignored", found.path)
                elif found.key in futures or places[found.key][0] is directory:
                    contents.futures.remove(found)
                    self._discard((directory, found))
                else:
                    futures.add(found.key)

    def _choose(self, first: Place, second: Place) -> Place:
        """Return the log to load; the other one is not loaded."""
        for copy, original in ((second, first), (first, second)):
            if self._is_moved_from(copy, original):
                self._contents[original[0]].logs.remove(original[1])
                logger.info("%s has replaced %s, which is removed", copy[1].path, original[1].path)
                if self._discard(original):
                    self._forget_origin(copy)
                return copy
        logger.error("%s is in two log directories: %s is ignored", second[1].path.name, second[1].path)
        self._contents[second[0]].logs.remove(second[1])
        return first

    def _is_moved_from(self, copy: Place, original: Place) -> bool:
        directory, found = copy
        try:
            return read_moved_from(self._fs, str(found.path)) == str(original[0].path)
        except OSError as error:
            self._on_failure(directory, error)
            return False

    def _discard(self, place: Place) -> bool:
        """Rename a log for deletion and sync the directory, so that the log cannot reappear under its name."""
        directory, found = place
        try:
            self._contents[directory].deleted.append(self._put_aside(found))
            self._fs.sync_directory(str(directory.path))
        except OSError as error:
            self._on_failure(directory, error)
            return False
        return True

    def _forget_origin(self, copy: Place) -> None:
        directory, found = copy
        try:
            remove_moved_from(self._fs, str(found.path))
        except OSError as error:
            self._on_failure(directory, error)

"""Where the logs of a broker are, when several log directories hold one of the same partition: decided at the start.

A log and its copy that was being made elsewhere (a *future* log) belong together, and the copying goes on. Where a log
is in two directories under its own name, the broker was stopped in the moment in which the copy took its place:
`.ottla-moved-from` tells which is the copy, and the other one goes. Two logs without that file are somebody's mistake:
the first one counts, and the second stays untouched.

A copy without its log is left alone. The log may be in a directory that is offline, and if it is not, nobody knows how
much of it was in the copy.
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
    """Decides, and takes out of the contents what is not to be loaded."""

    def __init__(
        self,
        fs: FileSystem,
        contents: Contents,
        put_aside: Callable[[LogInDirectory], LogInDirectory],
        on_failure: Callable[[LogDirectory, OSError], None],
    ) -> None:
        """put_aside: renames a directory whose files are to go. on_failure: a directory cannot be read or written."""
        self._fs = fs
        self._contents = contents
        self._put_aside = put_aside
        self._on_failure = on_failure

    def settle(self) -> None:
        """Every partition has at most one log and one future log afterwards, in different directories."""
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
                    logger.warning("%s: a copy of a log that is nowhere; it is ignored", found.path)
                elif found.key in futures or places[found.key][0] is directory:
                    contents.futures.remove(found)
                    self._discard((directory, found))
                else:
                    futures.add(found.key)

    def _choose(self, first: Place, second: Place) -> Place:
        """The one that counts; the other is not loaded."""
        for copy, original in ((second, first), (first, second)):
            if self._is_moved_from(copy, original):
                self._contents[original[0]].logs.remove(original[1])
                logger.info("%s has taken the place of %s, which is removed", copy[1].path, original[1].path)
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
        """Have the files of a log go; durably, so that it does not come back under its name."""
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

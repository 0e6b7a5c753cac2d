"""Delayed removal of files and directories of the log, because readers may still use them."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable

from storage.file_system import FileSystem

logger = logging.getLogger(__name__)


class DelayedDeletes:
    """A queue of paths by due time, in ms of the injected clock."""

    def __init__(self, fs: FileSystem, now_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        self._fs = fs
        self._now_ms = now_ms
        self._wake = wake
        self._heap: list[tuple[int, int, str]] = []
        self._count = 0

    def add(self, paths: list[str], delay_ms: int) -> None:
        """Remove `paths` (files, or directories with their content) after `delay_ms`."""
        for path in paths:
            self._count += 1
            heapq.heappush(self._heap, (self._now_ms() + delay_ms, self._count, path))
        if paths:
            self._wake()

    @property
    def next_due_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    async def run_due(self) -> None:
        """Remove the paths that are due, off the event loop."""
        due: list[str] = []
        while self._heap and self._heap[0][0] <= self._now_ms():
            due.append(heapq.heappop(self._heap)[2])
        if due:
            await self._fs.run_blocking(lambda: self._remove(due))

    def renamed(self, directory: str, new: str) -> None:
        """Change the paths in `directory`, which was renamed to `new`."""
        prefix = f"{directory}/"
        self._heap = [
            (due_ms, count, f"{new}/{path.removeprefix(prefix)}" if path.startswith(prefix) else path)
            for due_ms, count, path in self._heap
        ]

    def forget(self, directory: str) -> None:
        """Cancel the removals in `directory`, which has failed. The next start finds and removes the paths."""
        self._heap = [item for item in self._heap if not item[2].startswith(f"{directory}/")]
        heapq.heapify(self._heap)

    def _remove(self, paths: list[str]) -> None:
        """Remove files and directories; log a failure and continue with the next path."""
        for path in paths:
            try:
                self._remove_one(path)
            except OSError as error:
                logger.warning("%s", self._fs.failed(path, error))

    def _remove_one(self, path: str) -> None:
        try:
            self._fs.remove(path)
        except (IsADirectoryError, PermissionError):  # EISDIR on Linux, EPERM on other systems
            self._fs.remove_tree(path)

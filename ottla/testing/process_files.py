"""The file system of one run of a broker, which ends with the run: after SIGKILL a process writes nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from storage.file_system import FileSystem

T = TypeVar("T")

_REFUSED: Final = (
    *("pread", "pwrite", "ftruncate", "fsync", "sendfile", "pread_now", "sendfile_now", "open", "write_all"),
    *("read_file", "write_file", "create_private", "replace_file", "sync_path", "sync_directory", "rename"),
    *("remove_tree", "make_directory", "list_directory", "size", "modified_ms", "set_modified_ms"),
)
"""The operations that a killed process does not get to. `remove` does nothing, so that locks are released."""


class ProcessFiles:
    """Makes a file system stop for good, and waits for the threads that use it."""

    def __init__(self, fs: FileSystem) -> None:
        """fs: is changed: it counts the work that runs in threads."""
        self.fs = fs
        self._run_blocking = fs.run_blocking
        self._under_way: set[asyncio.Future[None]] = set()
        fs.run_blocking = self._counted  # type: ignore[method-assign]

    async def _counted(self, work: Callable[[], T]) -> T:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        self._under_way.add(ended)
        has_begun = False

        def run() -> T:
            nonlocal has_begun
            has_begun = True
            try:
                return work()
            finally:
                loop.call_soon_threadsafe(_complete, ended)

        ended.add_done_callback(self._under_way.discard)
        try:
            return await self._run_blocking(run)
        finally:
            if not has_begun:  # and will not: it was cancelled, or no thread could be started
                _complete(ended)

    def kill(self) -> None:
        """Let every operation raise CancelledError from now on: it passes all handlers of errors."""
        for name in _REFUSED:
            setattr(self.fs, name, _killed)
        self.fs.remove = lambda path: False  # type: ignore[method-assign]

    async def until_quiet(self) -> None:
        """Wait until no thread works with these files."""
        while self._under_way:
            await asyncio.wait(self._under_way)


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _killed(*args: object, **named: object) -> NoReturn:
    raise asyncio.CancelledError("the broker was killed")

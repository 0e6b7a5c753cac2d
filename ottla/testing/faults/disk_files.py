"""The file system of a broker whose disk can fail, fill up or slow down on command.

A rule applies to a log directory and everything below it, or to all files of a broker. Rules may be added and removed
while the broker runs. Without rules, an operation costs one check more. The registry does not use this file system.

The broker may use several threads. So may these rules: a lock guards what they count.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

from storage.file_system import FileSystem, OpenFile

Operation: TypeAlias = Literal["read", "write", "fsync"]
"""`write` is everything that changes files, also their names; `fsync` includes that of directories."""

_UNKNOWN: Final = ""


class DiskRule:
    """What does not work as usual in some directories."""

    def __init__(
        self,
        directories: tuple[str, ...],
        *,
        fails: frozenset[Operation] = frozenset(),
        room: int | None = None,
        delay_s: float = 0.0,
        take: Callable[[], bool] = lambda: True,
        on_effect: Callable[[], None] = lambda: None,
    ) -> None:
        """directories: absolute paths; the rule applies below them. fails: operations that fail with EIO.

        room: bytes that can still be written; afterwards writes fail with ENOSPC. What is removed gives room back, but
        not more than there was: a disk without room stays full. delay_s: how long each fsync takes,
        and each read. take: counts an operation that is to fail; False: it does not. on_effect: called for each effect.
        Both are called in any thread.
        """
        self.directories = directories
        self._prefixes = tuple(f"{path}/" for path in directories)
        self._fails = fails
        self._room = self._most_room = room
        self._delay_s = delay_s
        self._take = take
        self._on_effect = on_effect
        self._lock = threading.Lock()
        self._healed = threading.Event()

    def applies_to(self, path: str) -> bool:
        """Whether a path is below the directories."""
        return f"{path}/".startswith(self._prefixes)

    def check(self, operation: Operation) -> None:
        """Raise OSError if the operation fails."""
        if operation not in self._fails or not self._take():
            return
        self._on_effect()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def take_room(self, size: int) -> int:
        """Return how many of `size` new bytes fit, and count them. Raises OSError if none does."""
        if self._room is None:
            return size
        with self._lock:
            fits = min(size, self._room)
            self._room -= fits
        if fits < size:
            self._on_effect()
        if size and not fits:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fits

    def give_room(self, size: int) -> None:
        """Note that `size` bytes were removed."""
        with self._lock:
            if self._room is not None and self._most_room is not None:
                self._room = min(self._room + size, self._most_room)

    @property
    def has_room(self) -> bool:
        """Whether something new can be written."""
        return self._room is None or self._room > 0

    @property
    def is_slow(self) -> bool:
        """Whether reads wait for the disk."""
        return self._delay_s > 0

    def wait(self) -> None:
        """Wait as long as a slow disk takes, or until the rule is healed. Does nothing in an event loop's thread."""
        if not self._delay_s or _is_in_event_loop():
            return
        self._on_effect()
        self._healed.wait(self._delay_s)

    def heal(self) -> None:
        """End the waits."""
        self._healed.set()


class DiskRules:
    """The rules of one broker, over all its runs."""

    def __init__(self) -> None:
        self._rules: tuple[DiskRule, ...] = ()

    @property
    def current(self) -> tuple[DiskRule, ...]:
        """The rules in effect; it can be read in any thread."""
        return self._rules

    def add(self, rule: DiskRule) -> None:
        """Put a rule into effect."""
        self._rules = (*self._rules, rule)

    def remove(self, rule: DiskRule) -> None:
        """Heal a rule."""
        self._rules = tuple(one for one in self._rules if one is not rule)
        rule.heal()

    def file_system(self) -> FaultyFiles:
        """Return the file system for one run of the broker."""
        return FaultyFiles(self)


class FaultyFiles(FileSystem):
    """Real files on a disk with rules."""

    def __init__(self, rules: DiskRules) -> None:
        super().__init__()
        self._rules = rules
        self._paths: dict[int, str] = {}  # of open descriptors
        self._path_lock = threading.Lock()

    # -- rules -------------------------------------------------------------------------------------------------------

    def _of(self, path: str) -> Iterator[DiskRule]:
        absolute = os.path.abspath(path) if path else path  # noqa: PTH100 - paths are strings here
        return (rule for rule in self._rules.current if rule.applies_to(absolute))

    def _check(self, operation: Operation, path: str) -> None:
        for rule in self._of(path):
            rule.check(operation)

    def _check_new(self, path: str) -> None:
        """Raise OSError if a new file or directory finds no room."""
        for rule in self._of(path):
            rule.check("write")
            if not rule.has_room:
                rule.take_room(1)

    def _give_room(self, path: str, size: int) -> None:
        for rule in self._of(path):
            rule.give_room(size)

    def _path(self, fd: int) -> str:
        return self._paths.get(fd, _UNKNOWN)

    def _read(self, fd: int) -> None:
        for rule in self._of(self._path(fd)):
            rule.check("read")
            rule.wait()

    def _is_slow(self, fd: int) -> bool:
        return any(rule.is_slow for rule in self._of(self._path(fd)))

    def _sync(self, path: str) -> None:
        for rule in self._of(path):
            rule.wait()
            rule.check("fsync")

    # -- descriptors -------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """See `FileSystem`."""
        if self._rules.current:
            if create and not os.path.exists(path):  # noqa: PTH110 - paths are strings here
                self._check_new(path)
            self._check("read", path)
        opened = super().open(path, create=create)
        fd, opened.fd = opened.fd, -1
        with self._path_lock:
            self._paths[fd] = path
        return OpenFile(fd, self._close)

    def _close(self, fd: int) -> None:
        with self._path_lock:
            self._paths.pop(fd, None)
        os.close(fd)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """See `FileSystem`."""
        if self._rules.current:
            self._read(fd)
        return os.pread(fd, length, position)

    def pread_now(self, fd: int, length: int, position: int) -> bytes | bytearray | None:
        """See `FileSystem`. Nothing of a slow disk is in the page cache."""
        if self._rules.current:
            if self._is_slow(fd):
                return None
            self._read(fd)
        return super().pread_now(fd, length, position)

    def sendfile_now(self, socket_fd: int, fd: int, length: int, position: int) -> int | None:
        """See `FileSystem`."""
        if self._rules.current:
            if self._is_slow(fd):
                return None
            self._read(fd)
        return super().sendfile_now(socket_fd, fd, length, position)

    def pwrite(  # type: ignore[override]  # a method, not a function
        self, fd: int, data: bytes | bytearray | memoryview, position: int
    ) -> int:
        """See `FileSystem`. On a disk that becomes full, the bytes that fit are written, as the kernel does it."""
        if self._rules.current:
            path = self._path(fd)
            self._check("write", path)
            growth = position + len(data) - max(os.fstat(fd).st_size, position)
            for rule in self._of(path):
                if growth > 0 and (fits := rule.take_room(growth)) < growth:
                    data = memoryview(data)[: len(data) - (growth - fits)]
                    growth = fits
        return os.pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("write", self._path(fd))
            self._give_room(self._path(fd), max(os.fstat(fd).st_size - size, 0))
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a method, not a function
        """See `FileSystem`."""
        if self._rules.current:
            self._sync(self._path(fd))
        os.fsync(fd)

    # -- names -------------------------------------------------------------------------------------------------------

    def read_file(self, path: str) -> bytes:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("read", path)
        return super().read_file(path)

    def create_private(self, path: str) -> None:
        """See `FileSystem`."""
        if self._rules.current:
            self._check_new(path)
        super().create_private(path)

    def sync_path(self, path: str) -> None:
        """See `FileSystem`."""
        if self._rules.current:
            self._sync(path)
        super().sync_path(path)

    def rename(self, source: str, target: str) -> None:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("write", source)
            self._give_room(target, _size_of(target))
        super().rename(source, target)

    def remove(self, path: str) -> bool:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("write", path)
            self._give_room(path, _size_of(path))
        return super().remove(path)

    def remove_tree(self, path: str) -> None:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("write", path)
            self._give_room(path, sum(_size_of(str(file)) for file in Path(path).rglob("*")))
        super().remove_tree(path)

    def make_directory(self, path: str) -> bool:
        """See `FileSystem`."""
        if self._rules.current and not os.path.isdir(path):  # noqa: PTH112
            self._check_new(path)
        return super().make_directory(path)

    def list_directory(self, path: str) -> Iterator[os.DirEntry[str]]:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("read", path)
        return super().list_directory(path)

    def size(self, path: str) -> int:
        """See `FileSystem`."""
        if self._rules.current:
            self._check("read", path)
        return super().size(path)


def _size_of(path: str) -> int:
    """The size of a file; 0 for a directory, and without a file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - paths are strings here
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _is_in_event_loop() -> bool:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False

"""A file system whose power can be cut after every operation. It rebuilds the possible contents of the disk elsewhere.

`PowerCutFileSystem` works on real files and keeps a journal of what was done to them below one directory. A `Disk`
replays the journal up to any operation and writes out, by a seeded choice, one of the states that a journalling file
system (ext4, XFS) may come back with. The rules, harsher than either of them where they differ:

- What `fsync` of a file returned for is there: content and size. It says nothing about the file's name.
- What `fsync` of a directory returned for is there: every creation, renaming and deletion in it until then, each whole.
- Of the rest of a directory's operations a prefix in their order is there; each directory has its own.
- Of the rest of a file's writes and cuts a prefix in their order is there, whatever its name did. The write behind
  that prefix may be torn: its first bytes only, or its whole length with zeros for the rest.
- Or, where nothing was cut, the file has its new size and each of its sectors is either new or what it was before
  (zeros behind the old end): the pages left the cache in no order.
- A file whose name is new and whose content never was synced may be empty, even if it was renamed over one that was.

A rename within a directory is one operation; between directories it is not modelled, and not done by the log. Reads are
not touched. Blocking work runs at once, so one run of a workload has one journal.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from storage.file_system import FileSystem, OpenFile

T = TypeVar("T")

_SECTOR = 128  # of a disk it is 512 at least; the files of tests are small


@dataclass(eq=False)
class File:
    """A file by identity, not by name: its contents on the disk, and the later operations on it."""

    durable: bytes = b""
    pending: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        content = bytearray(self.durable)
        for change in self.pending:
            change.apply(content)
        self.durable = bytes(content)
        self.pending = []

    def after_a_cut(self, rng: random.Random) -> bytes:
        """One of the contents that the disk may hold."""
        content = bytearray(self.durable)
        pending = self.pending
        if not pending:
            return bytes(content)
        if len(pending) > 1 and rng.random() < 0.25 and not any(change.data is None for change in pending):
            return self._in_no_order(rng)
        kept = rng.choice((0, len(pending), rng.randint(0, len(pending))))
        for change in pending[:kept]:
            change.apply(content)
        if kept < len(pending) and (torn := pending[kept]).data is not None and rng.random() < 0.5:
            there = rng.randint(0, len(torn.data))
            data = torn.data[:there] + (bytes(len(torn.data) - there) if rng.random() < 0.5 else b"")
            Change(torn.position, data).apply(content)
        return bytes(content)

    def _in_no_order(self, rng: random.Random) -> bytes:
        content = bytearray(self.durable)
        for change in self.pending:
            change.apply(content)
        before = self.durable.ljust(len(content), b"\0")
        for start in range(0, len(content), _SECTOR):
            if rng.random() < 0.3:
                content[start : start + _SECTOR] = before[start : start + _SECTOR]
        return bytes(content)


@dataclass
class Change:
    """Bytes written at a position, or (without data) a file cut or grown to a size."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        size = self.position + len(self.data or b"")
        if self.data is None:
            del content[size:]
        if len(content) < size:
            content.extend(bytes(size - len(content)))
        if self.data is not None:
            content[self.position : size] = self.data


@dataclass(eq=False)
class Directory:
    """A directory by identity: its entries on the disk, and the later operations on them."""

    durable: dict[str, File | Directory] = field(default_factory=dict)
    pending: list[Callable[[dict[str, File | Directory]], None]] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            change(self.durable)
        self.pending = []

    def after_a_cut(self, rng: random.Random, target: Path) -> None:
        """Write out to `target` one of the states that the disk may hold."""
        target.mkdir()
        entries = dict(self.durable)
        kept = rng.choice((0, len(self.pending), rng.randint(0, len(self.pending))))
        for change in self.pending[:kept]:
            change(entries)
        for name, node in entries.items():
            if isinstance(node, Directory):
                node.after_a_cut(rng, target / name)
            else:
                (target / name).write_bytes(node.after_a_cut(rng))


# One operation of a journal: what it does to the disk.
Operation = Callable[[], None]


class Disk:
    """The disk under a `PowerCutFileSystem` when the power is cut after operation number `position`."""

    def __init__(self, fs: PowerCutFileSystem) -> None:
        self._fs = fs
        self.position = 0

    def advance(self, position: int) -> None:
        """Advance to the point after operation number `position`."""
        assert position >= self.position
        for _, operation in self._fs.journal[self.position : position]:
            operation()
        self.position = position

    def write_out(self, seed: object, target: Path) -> None:
        """Make `target` a directory with one possible state of the file system."""
        self._fs.tree.after_a_cut(random.Random(repr(seed)), target)


class PowerCutFileSystem(FileSystem):
    """Real files below `root`, with a journal: (what was done, in words; what that is to the `Disk`).

    What is there at the beginning counts as synced. Nothing is really synced: the machine stays up.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.journal: list[tuple[str, Operation]] = []
        self.root = root
        self._root = str(root)
        # The same objects, once by the names that programs see now, once (`tree`) as the disk has them.
        self._live: dict[str, File | Directory] = {}
        self._files: dict[int, File] = {}
        self.tree = self._adopt(root)

    def _adopt(self, directory: Path) -> Directory:
        node = Directory()
        self._live[str(directory)] = node
        for entry in directory.iterdir():
            if entry.is_dir():
                node.durable[entry.name] = self._adopt(entry)
            else:
                node.durable[entry.name] = self._live[str(entry)] = File(entry.read_bytes())
        return node

    @property
    def position(self) -> int:
        """The number of operations so far."""
        return len(self.journal)

    def _note(self, words: str, operation: Operation) -> None:
        self.journal.append((words, operation))

    def _name(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        directory = self._live[parent]
        assert isinstance(directory, Directory)
        return directory, name

    def _short(self, path: str) -> str:
        return path.removeprefix(self._root + "/")

    # -- the operations ----------------------------------------------------------------------------

    async def run_blocking(self, work: Callable[[], T]) -> T:
        return work()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        if create and path not in self._live:
            directory, name = self._name(path)
            made = self._live[path] = File()
            change = {name: made}
            self._note(f"create {self._short(path)}", lambda: directory.pending.append(lambda at: at.update(change)))
        handle = super().open(path, create=create)
        node = self._live[path]
        assert isinstance(node, File)
        self._files[handle.fd] = node
        return handle

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        written = os.pwrite(fd, data, position)
        node, change = self._files[fd], Change(position, bytes(data[:written]))
        self._note(f"write {written} bytes at {position}", lambda: node.pending.append(change))
        return written

    def ftruncate(self, fd: int, size: int) -> None:  # type: ignore[override]
        os.ftruncate(fd, size)
        node, change = self._files[fd], Change(size, None)
        self._note(f"cut to {size} bytes", lambda: node.pending.append(change))

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        self._note("fsync", self._files[fd].sync)

    def sync_path(self, path: str) -> None:
        node = self._live.get(path)
        if node is not None:
            self._note(f"fsync {self._short(path)}", node.sync)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        (directory, old), (other, new) = self._name(source), self._name(target)
        assert directory is other, "a rename between directories"
        self._live = {
            target + path.removeprefix(source) if path == source or path.startswith(source + "/") else path: node
            for path, node in self._live.items()
            if path != target
        }

        def change(at: dict[str, File | Directory]) -> None:
            at[new] = at.pop(old)

        self._note(f"rename {self._short(source)} to {self._short(target)}", lambda: directory.pending.append(change))

    def remove(self, path: str) -> bool:
        if not super().remove(path):
            return False
        self._forget(path)
        return True

    def _forget(self, path: str) -> None:
        directory, name = self._name(path)
        del self._live[path]
        self._note(f"remove {self._short(path)}", lambda: directory.pending.append(lambda at: at.pop(name)))

    def remove_tree(self, path: str) -> None:
        for entry in list(os.scandir(path)):
            if entry.is_dir():
                self.remove_tree(entry.path)
            else:
                self.remove(entry.path)
        os.rmdir(path)  # noqa: PTH106 - paths are strings here
        self._forget(path)

    def make_directory(self, path: str) -> bool:
        if path in self._live:
            return False
        directory, name = self._name(path)  # of the parent, which has to be there
        os.mkdir(path)  # noqa: PTH102
        made = self._live[path] = Directory()
        change = {name: made}
        self._note(f"make {self._short(path)}", lambda: directory.pending.append(lambda at: at.update(change)))
        return True

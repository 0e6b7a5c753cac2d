"""A FileSystem that checks each name before anything is done there: for disks that fail."""

from __future__ import annotations

import os
from collections.abc import Iterator

from storage.file_system import FileSystem, OpenFile


class CheckedFileSystem(FileSystem):
    """`check` is called with the path of each operation on a name; what it raises, the operation raises."""

    def check(self, path: str) -> None:
        """Raise OSError if nothing can be done at a path."""
        raise NotImplementedError

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self.check(path)
        return super().open(path, create=create)

    def read_file(self, path: str) -> bytes:
        self.check(path)
        return super().read_file(path)

    def create_private(self, path: str) -> None:
        self.check(path)
        super().create_private(path)

    def sync_path(self, path: str) -> None:
        self.check(path)
        super().sync_path(path)

    def rename(self, source: str, target: str) -> None:
        self.check(source)
        super().rename(source, target)

    def remove(self, path: str) -> bool:
        self.check(path)
        return super().remove(path)

    def remove_tree(self, path: str) -> None:
        self.check(path)
        super().remove_tree(path)

    def make_directory(self, path: str) -> bool:
        self.check(path)
        return super().make_directory(path)

    def list_directory(self, path: str) -> Iterator[os.DirEntry[str]]:
        self.check(path)
        return super().list_directory(path)

    def size(self, path: str) -> int:
        self.check(path)
        return super().size(path)

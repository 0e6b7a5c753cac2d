"""Watched reads in ZooKeeper: a callback is called when the content changes."""

from collections.abc import Callable
from typing import Final

from registry.errors import NoNodeError
from registry.interface import Registry, Watch

_DATA: Final = "data"
_CHILDREN: Final = "children"


async def read_data(registry: Registry, path: str) -> bytes | None:
    """A node's data; None if the node does not exist."""
    try:
        return (await registry.get(path))[0] or b""
    except NoNodeError:
        return None


async def read_children(registry: Registry, path: str) -> list[str]:
    """The names of a node's children; empty if the node does not exist."""
    try:
        return await registry.children(path)
    except NoNodeError:
        return []


class WatchedTree:
    """Sets a watch before each read; `end` cancels the watches of nodes that the last round did not read."""

    def __init__(self, registry: Registry, on_change: Callable[[], None]) -> None:
        self._registry = registry
        self._on_change = on_change
        self._watches: dict[tuple[str, str], Watch] = {}
        self._read: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """Start a round of reads."""
        self._read.clear()

    def end(self) -> None:
        """End the round: cancel the watches of nodes that it did not read."""
        for key in self._watches.keys() - self._read:
            self._watches.pop(key).cancel()

    def close(self) -> None:
        """Cancel all watches."""
        self.begin()
        self.end()

    async def data(self, path: str) -> bytes | None:
        """A node's data; None if the node does not exist."""
        self._watch(_DATA, path)
        return await read_data(self._registry, path)

    async def children(self, path: str) -> list[str]:
        """The names of a node's children; empty if the node does not exist."""
        self._watch(_CHILDREN, path)
        return await read_children(self._registry, path)

    def _watch(self, kind: str, path: str) -> None:
        key = (kind, path)
        self._read.add(key)
        if key not in self._watches:
            watch = self._registry.watch_data if kind == _DATA else self._registry.watch_children
            self._watches[key] = watch(path, self._on_change)

"""The watches of one registry: lasting registrations that are called with nothing.

A watch that has been called for but has not run yet is not scheduled a second time: it will read after both
changes anyway. Everything here happens on the event loop's thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class WatchHandle:
    """One registration (the interface's Watch)."""

    __slots__ = ("_callback", "_group", "_scheduled")

    def __init__(self, callback: Callable[[], None], group: list[WatchHandle]) -> None:
        self._callback: Callable[[], None] | None = callback
        self._group: list[WatchHandle] = group  # the registrations on the same path, this one among them
        self._scheduled = False
        group.append(self)

    def cancel(self) -> None:
        """Call the callback no more, not even for a change that has already happened. Idempotent."""
        self._callback = None
        if self in self._group:
            self._group.remove(self)

    def fire(self) -> None:
        """Have the callback run soon on the running loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._callback is not None:
            self._callback()


class WatchTable:
    """All watches of one registry, by what they watch and path."""

    def __init__(self) -> None:
        self._data: dict[str, list[WatchHandle]] = {}
        self._children: dict[str, list[WatchHandle]] = {}

    def add_data(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Watch a node's existence and data."""
        return WatchHandle(callback, self._data.setdefault(path, []))

    def add_children(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Watch a node's existence and its set of children."""
        return WatchHandle(callback, self._children.setdefault(path, []))

    def data_changed(self, path: str) -> None:
        """Fire the watches on a node's data."""
        self._fire(self._data, path)

    def children_changed(self, path: str) -> None:
        """Fire the watches on a node's children."""
        self._fire(self._children, path)

    def data_paths(self) -> list[str]:
        """Paths whose data somebody watches."""
        return [path for path, group in self._data.items() if group]

    def children_paths(self) -> list[str]:
        """Paths whose children somebody watches."""
        return [path for path, group in self._children.items() if group]

    def watches_data(self, path: str) -> bool:
        """Whether somebody watches the node's data."""
        return bool(self._data.get(path))

    def watches_children(self, path: str) -> bool:
        """Whether somebody watches the node's children."""
        return bool(self._children.get(path))

    def fire_all(self) -> None:
        """Fire every watch, in order of registration per path: anything may have been missed."""
        for handle in self._all():
            handle.fire()

    def clear(self) -> None:
        """Cancel every watch."""
        for handle in self._all():
            handle.cancel()
        self._data.clear()
        self._children.clear()

    def _all(self) -> Iterator[WatchHandle]:
        for table in (self._data, self._children):
            for group in list(table.values()):
                yield from tuple(group)

    @staticmethod
    def _fire(table: dict[str, list[WatchHandle]], path: str) -> None:
        group = table.get(path)
        if group is None:
            return
        if not group:  # all of them were cancelled
            del table[path]
        for handle in group:
            handle.fire()

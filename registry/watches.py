"""The watches of one registry: permanent registrations of callbacks without arguments.

A callback that is scheduled but has not run yet is not scheduled again: its read follows both changes anyway. It runs
in the context (contextvars) in which it was registered, not in the context of the writer. All methods must be called on
the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class WatchHandle:
    """The registration of one callback (the interface's Watch)."""

    __slots__ = ("_callback", "_context", "_group", "_scheduled")

    def __init__(self, callback: Callable[[], None], group: list[WatchHandle]) -> None:
        self._callback: Callable[[], None] | None = callback
        self._group: list[WatchHandle] = group  # all registrations on the same path, with this one
        self._scheduled = False
        self._context = contextvars.copy_context()
        group.append(self)

    def cancel(self) -> None:
        """Stop calling the callback, also for changes that have already happened. Idempotent."""
        self._callback = None
        if self in self._group:
            self._group.remove(self)

    def fire(self) -> None:
        """Schedule the callback on the running event loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run, context=self._context)

    def _run(self) -> None:
        self._scheduled = False
        if self._callback is not None:
            self._callback()


class WatchTable:
    """All watches of one registry, by kind (data or children) and path."""

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
        """Return the paths with a watch on the data."""
        return [path for path, group in self._data.items() if group]

    def children_paths(self) -> list[str]:
        """Return the paths with a watch on the children."""
        return [path for path, group in self._children.items() if group]

    def watches_data(self, path: str) -> bool:
        """Whether there is a watch on the node's data."""
        return bool(self._data.get(path))

    def watches_children(self, path: str) -> bool:
        """Whether there is a watch on the node's children."""
        return bool(self._children.get(path))

    def fire_all(self) -> None:
        """Fire every watch, per path in the order of registration: changes may have been missed."""
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
        if not group:  # all registrations were cancelled
            del table[path]
        for handle in group:
            handle.fire()

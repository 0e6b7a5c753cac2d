"""The watches that one connection has set.

A watch of `exists`, `getData` and `getChildren` fires once; those of `addWatch` (ZooKeeper 3.6) until they are removed,
a recursive one for all nodes below its path. A connection gets one event for a change of a node, however many watches
it has on the node. The watches end with the connection; a client sets them again on the next one (`setWatches`), and
gets the events that it has missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.embedded.tree import ChangeKind
from registry.errors import BadArgumentsError
from registry.paths import parent_of
from registry.server.codes import EventType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.embedded.tree import NodeChange, Tree

_EVENTS = {
    ChangeKind.CREATED: EventType.NODE_CREATED,
    ChangeKind.SET: EventType.NODE_DATA_CHANGED,
    ChangeKind.DELETED: EventType.NODE_DELETED,
}

Event = tuple[EventType, str]

_MAX_BYTES = 8 << 20  # of a connection
_BYTES_OF_A_WATCH = 100  # besides its path


class WatchKind:
    """The numbers of `removeWatches`."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class Watches:
    """The paths that are watched, by kind."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.children: set[str] = set()
        self.persistent: set[str] = set()
        self.recursive: set[str] = set()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.data) + len(self.children) + len(self.persistent) + len(self.recursive)

    def events(self, change: NodeChange) -> Iterator[Event]:
        """Yield the events of a change, and forget the watches that fire once."""
        kind, path = change
        watched = path in self.persistent or self._has_recursive_above(path)
        if self._drop(self.data, path):
            watched = True
        if kind is ChangeKind.DELETED and self._drop(self.children, path):
            watched = True
        if watched:
            yield _EVENTS[kind], path
        if kind is ChangeKind.SET:
            return
        parent = parent_of(path)
        if self._drop(self.children, parent) or parent in self.persistent:
            yield EventType.NODE_CHILDREN_CHANGED, parent

    def add(self, paths: set[str], path: str) -> None:
        """Add a path to one of the sets. Raises BadArgumentsError if the connection has too many watches."""
        if path in paths:
            return
        size = len(path) + _BYTES_OF_A_WATCH
        if self._bytes + size > _MAX_BYTES:
            raise BadArgumentsError(f"{path}: the connection has too many watches", path)
        paths.add(path)
        self._bytes += size

    def remove(self, path: str, kind: int) -> bool:
        """Remove the watches on a path. Return whether there was one."""
        dropped = [self._drop(paths, path) for paths in self._of_kind(kind)]
        return any(dropped)

    def has(self, path: str, kind: int) -> bool:
        """Whether there is a watch on a path."""
        return any(path in watched for watched in self._of_kind(kind))

    def restore(self, path: str, kind: int, tree: Tree, seen_zxid: int) -> Event | None:
        """Set a watch on a node's data or children again, or return the event that the client has missed.

        kind: DATA or CHILDREN. seen_zxid: the last transaction that the client has seen.
        """
        node = tree.get(path)
        if node is None:
            return EventType.NODE_DELETED, path
        is_data = kind == WatchKind.DATA
        if (node.mzxid if is_data else node.pzxid) > seen_zxid:
            return EventType.NODE_DATA_CHANGED if is_data else EventType.NODE_CHILDREN_CHANGED, path
        self.add(self.data if is_data else self.children, path)
        return None

    def restore_exists(self, path: str, tree: Tree) -> Event | None:
        """Set again the watch of an `exists` that had found no node."""
        if tree.get(path) is not None:
            return EventType.NODE_CREATED, path
        self.add(self.data, path)
        return None

    def _drop(self, paths: set[str], path: str) -> bool:
        if path not in paths:
            return False
        paths.discard(path)
        self._bytes -= len(path) + _BYTES_OF_A_WATCH
        return True

    def _of_kind(self, kind: int) -> list[set[str]]:
        return {
            WatchKind.CHILDREN: [self.children],
            WatchKind.DATA: [self.data],
            WatchKind.ANY: [self.data, self.children, self.persistent, self.recursive],
            WatchKind.PERSISTENT: [self.persistent],
            WatchKind.PERSISTENT_RECURSIVE: [self.recursive],
        }.get(kind, [])

    def _has_recursive_above(self, path: str) -> bool:
        if not self.recursive:
            return False
        while path not in self.recursive:
            if path == "/":
                return False
            path = parent_of(path)
        return True

"""The watches that one connection has set.

A watch of `exists`, `getData` and `getChildren` fires once; those of `addWatch` (ZooKeeper 3.6) until they are removed,
a recursive one for all nodes below its path. A connection gets one event for a change of a node, however many watches
it has on the node. The watches end with the connection; a client sets them again on the next one (`setWatches`), and
gets the events that it has missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.embedded.tree import ChangeKind
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

    def __len__(self) -> int:
        return len(self.data) + len(self.children) + len(self.persistent) + len(self.recursive)

    def events(self, change: NodeChange) -> Iterator[Event]:
        """Yield the events of a change, and forget the watches that fire once."""
        kind, path = change
        watched = path in self.persistent or self._has_recursive_above(path)
        if path in self.data:
            self.data.discard(path)
            watched = True
        if kind is ChangeKind.DELETED and path in self.children:
            self.children.discard(path)
            watched = True
        if watched:
            yield _EVENTS[kind], path
        if kind is ChangeKind.SET:
            return
        parent = parent_of(path)
        if parent in self.children or parent in self.persistent:
            self.children.discard(parent)
            yield EventType.NODE_CHILDREN_CHANGED, parent

    def remove(self, path: str, kind: int) -> bool:
        """Remove the watches on a path. Return whether there was one."""
        chosen = self._of_kind(kind)
        found = any(path in watched for watched in chosen)
        for watched in chosen:
            watched.discard(path)
        return found

    def has(self, path: str, kind: int) -> bool:
        """Whether there is a watch on a path."""
        return any(path in watched for watched in self._of_kind(kind))

    def restore_data(self, path: str, tree: Tree, seen_zxid: int) -> Event | None:
        """Set the watch of a `getData` again, or return the event that the client has missed since `seen_zxid`."""
        node = tree.get(path)
        if node is None:
            return EventType.NODE_DELETED, path
        if node.mzxid > seen_zxid:
            return EventType.NODE_DATA_CHANGED, path
        self.data.add(path)
        return None

    def restore_exists(self, path: str, tree: Tree) -> Event | None:
        """Set the watch of an `exists` that found no node again."""
        if tree.get(path) is not None:
            return EventType.NODE_CREATED, path
        self.data.add(path)
        return None

    def restore_children(self, path: str, tree: Tree, seen_zxid: int) -> Event | None:
        """Set the watch of a `getChildren` again."""
        node = tree.get(path)
        if node is None:
            return EventType.NODE_DELETED, path
        if node.pzxid > seen_zxid:
            return EventType.NODE_CHILDREN_CHANGED, path
        self.children.add(path)
        return None

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

"""Permanent watches, built on ZooKeeper's watches, which fire once.

A watched path is *armed* if the servers have a watch for it, or will have one before they handle any later request.
Arming is a read in the ordinary request queue: `exists` for the data (the node need not exist), `children` for the
children, or `exists` if the node whose children are watched does not exist.

kazoo keeps watchers in sets by path. Every path has one watcher for its data and one for its children, so a path that
was armed twice (before and after a lost connection) still causes one call.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.protocol.states import EventType

from registry.errors import NoAuthError, NoNodeError
from registry.watches import WatchTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient
    from kazoo.protocol.states import WatchedEvent

    from registry.watches import WatchHandle
    from registry.zookeeper.address import ZooKeeperAddress

    # Queues a read that arms a watch; returns None without a connection.
    QueueRead = Callable[[str, Callable[[KazooClient], Any]], asyncio.Future[Any] | None]
    Watcher = Callable[[WatchedEvent], None]

logger = logging.getLogger(__name__)


class ZooKeeperWatches(WatchTable):
    """All watches of one registry, and which of them are armed."""

    def __init__(self, address: ZooKeeperAddress, queue: QueueRead) -> None:
        super().__init__()
        self._address = address
        self._queue = queue
        self._data_watchers: dict[str, Watcher] = {}
        self._children_watchers: dict[str, Watcher] = {}
        # The reads that arm, in flight or answered. A path that is in neither dict is not armed.
        self._data_armed: dict[str, asyncio.Future[Any]] = {}
        self._children_armed: dict[str, asyncio.Future[Any]] = {}

    def add_data(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Watch a node's existence and data."""
        handle = super().add_data(path, callback)
        self._arm_data(path)
        return handle

    def add_children(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Watch a node's existence and its set of children."""
        handle = super().add_children(path, callback)
        self._arm_children(path)
        return handle

    def arm_all(self) -> None:
        """Arm every watched path, on a new connection."""
        for path in self.data_paths():
            self._arm_data(path)
        for path in self.children_paths():
            self._arm_children(path)

    def disarm_all(self) -> None:
        """Disarm every path after a lost connection. Watches that the servers may still have are armed again, too."""
        self._data_armed.clear()
        self._children_armed.clear()

    def _arm_data(self, path: str) -> None:
        if path in self._data_armed:
            return
        full, watcher = self._address.full(path), self._data_watchers.setdefault(path, partial(self._data_event, path))
        future = self._queue(path, lambda client: client.exists_async(full, watch=watcher))
        if future is not None:
            self._data_armed[path] = future
            future.add_done_callback(partial(self._data_read, path))

    def _data_read(self, path: str, future: asyncio.Future[Any]) -> None:
        error = _error(future)
        if error is not None and self._data_armed.get(path) is future:  # not disarmed by a lost connection
            self._data_event(path)

    def _data_event(self, path: str, event: WatchedEvent | None = None) -> None:
        if event is not None and event.type == EventType.NONE:
            return  # a change of the connection, which the registry gets in another way
        self._data_armed.pop(path, None)
        if self.watches_data(path):
            self._arm_data(path)
            self.data_changed(path)
        else:
            self._data_watchers.pop(path, None)

    def _arm_children(self, path: str) -> None:
        if path in self._children_armed:
            return
        full, watcher = self._address.full(path), self._children_watcher(path)
        future = self._queue(path, lambda client: client.get_children_async(full, watch=watcher))
        if future is not None:
            self._children_armed[path] = future
            future.add_done_callback(partial(self._children_read, path))

    def _children_watcher(self, path: str) -> Watcher:
        return self._children_watchers.setdefault(path, partial(self._children_event, path))

    def _children_read(self, path: str, future: asyncio.Future[Any]) -> None:
        error = _error(future)
        if error is None or self._children_armed.get(path) is not future:
            return
        if not isinstance(error, (NoNodeError, NoAuthError)):
            self._children_event(path)
            return
        if isinstance(error, NoAuthError):
            logger.warning("%s: changes of its children are not noticed: the ACL does not permit reading them", path)
        full, watcher = self._address.full(path), self._children_watcher(path)
        existing = self._queue(path, lambda client: client.exists_async(full, watch=watcher))
        if existing is not None:
            self._children_armed[path] = existing
            existing.add_done_callback(partial(self._existence_read, path, isinstance(error, NoNodeError)))

    def _existence_read(self, path: str, was_missing: bool, future: asyncio.Future[Any]) -> None:
        error = _error(future)
        if self._children_armed.get(path) is not future:
            return
        if error is not None or (was_missing and future.result() is not None):  # created between the two reads
            self._children_event(path)

    def _children_event(self, path: str, event: WatchedEvent | None = None) -> None:
        if event is not None and event.type == EventType.NONE:
            return
        self._children_armed.pop(path, None)
        if self.watches_children(path):
            self._arm_children(path)
            self.children_changed(path)
        else:
            self._children_watchers.pop(path, None)


def _error(future: asyncio.Future[Any]) -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()

"""One session on the embedded store: the Registry that the rest of the broker uses.

The "connection" to a store in the same process never breaks by itself. Tests and simulations break it: after
`disconnect()` the state is SUSPENDED, and the store ends the session after the timeout; the registry learns of the end
in `reconnect()`. `expire()` ends the session at once and tells the registry.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from registry.embedded.access import Caller, require
from registry.embedded.tree import ChangeKind
from registry.errors import (
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    RegistryClosedError,
    RegistryError,
    SessionExpiredError,
)
from registry.interface import (
    ANY_VERSION,
    Acl,
    ConnectionState,
    Create,
    Delete,
    OpResult,
    Permission,
    Set,
    Stat,
)
from registry.listeners import StateListener, StateListeners
from registry.paths import parent_of, validate_path
from registry.request import validate_ops
from registry.watches import WatchHandle, WatchTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.embedded.store import EmbeddedStore
    from registry.embedded.tree import Draft, NodeChange
    from registry.interface import Op, Registry

T = TypeVar("T")


class EmbeddedRegistry:
    """A registry (see registry/interface.py) on an embedded store."""

    def __init__(self, store: EmbeddedStore, timeout_ms: int) -> None:
        self._store = store
        self._timeout_ms = timeout_ms
        self._session_id = 0
        self._state = ConnectionState.CLOSED
        self._closed = False  # set by `close`, never reset
        self._session_over = False  # the store has ended the session; the state may not be EXPIRED yet
        self._expiry: asyncio.TimerHandle | None = None  # set while disconnected
        self._waiting: list[asyncio.Future[None]] = []  # calls made while suspended
        self._under_way: set[asyncio.Future[Any]] = set()  # writes that the store has not answered
        self._listeners = StateListeners()
        self._watches = WatchTable()

    @property
    def session_id(self) -> int:
        """The id of the session, which owns the ephemeral nodes created here; 0 without a session."""
        return self._session_id

    @property
    def state(self) -> ConnectionState:
        """The latest state; listeners have been or will soon be called with it."""
        return self._state

    async def start(self) -> None:
        """Open a session: the first one, or a new one after the last expired."""
        if self._closed:
            raise RegistryClosedError("the registry has been closed")
        if self._state in (ConnectionState.CONNECTED, ConnectionState.SUSPENDED):
            return
        self._session_id = self._store.open_session(self)
        self._session_over = False
        self._set_state(ConnectionState.CONNECTED)
        self._watches.fire_all()

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes, and cancel the watches. Idempotent.

        Without a connection, the store ends the session when the timeout expires.
        """
        if self._closed:
            return
        self._closed = True
        state, self._state = self._state, ConnectionState.CLOSED
        self._watches.clear()
        self._listeners.clear()
        self._wake()
        if state is ConnectionState.CONNECTED and not self._session_over:
            with suppress(RegistryError):  # the session has ended meanwhile, or the store is closed
                await self._store.end_session(self._session_id)
        self._session_id = 0

    def listen(self, callback: Callable[[ConnectionState], None]) -> StateListener:
        """Call `callback` on the event loop with the new state after every change."""
        return self._listeners.add(callback)

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        acl: Sequence[Acl] | None = None,
        make_parents: bool = False,
    ) -> str:
        """See `Registry.create`."""
        op = Create(path, data, ephemeral, sequence, acl)
        validate_ops([op])
        try:
            return await self._write(lambda draft, caller: draft.create(op, caller))
        except NoNodeError:
            if not make_parents:
                raise
        with suppress(NodeExistsError):  # created by another session meanwhile
            await self.create(parent_of(path), acl=acl, make_parents=True)
        return await self._write(lambda draft, caller: draft.create(op, caller))

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        """Return the data and the stat."""
        validate_path(path)
        caller = Caller(await self._connected())
        node = self._store.tree.node(path)
        require(node.acl, Permission.READ, path, caller)
        return node.data, node.stat()

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data."""
        op = Set(path, data, version)
        validate_ops([op])
        return await self._write(lambda draft, caller: draft.set(op, caller))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node."""
        op = Delete(path, version)
        validate_ops([op])
        await self._write(lambda draft, caller: draft.delete(op, caller))

    async def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None if it does not exist."""
        validate_path(path)
        await self._connected()
        node = self._store.tree.get(path)
        return None if node is None else node.stat()

    async def sync(self) -> None:
        """See `Registry.sync`: every read sees all writes that are complete."""
        await self._connected()

    async def children(self, path: str) -> list[str]:
        """Return the names of the children."""
        return (await self.children_with_stat(path))[0]

    async def children_with_stat(self, path: str) -> tuple[list[str], Stat]:
        """Return the names of the children and the node's stat."""
        validate_path(path)
        caller = Caller(await self._connected())
        node = self._store.tree.node(path)
        require(node.acl, Permission.READ, path, caller)
        return self._store.tree.children(path), node.stat()

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        """Return the node's ACL and stat."""
        validate_path(path)
        await self._connected()
        node = self._store.tree.node(path)
        return node.acl, node.stat()

    async def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL; `version` is the stat's aversion."""
        validate_path(path)
        return await self._write(lambda draft, caller: draft.set_acl(path, acl, version, caller))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Apply all operations or none, in order; return their results in order."""
        validate_ops(ops)
        return await self._write(lambda draft, caller: draft.multi(ops, caller))

    def watch_data(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Call `callback` on the event loop after the node was created or deleted, or its data was set."""
        validate_path(path)
        return self._watches.add_data(path, callback)

    def watch_children(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Call `callback` on the event loop after the node or one of its children was created or deleted."""
        validate_path(path)
        return self._watches.add_children(path, callback)

    async def expire(self) -> None:
        """Let the session expire at once, as after a long pause, and tell the registry. For tests."""
        if self._state is ConnectionState.SUSPENDED:
            self.reconnect()
        if self._state is ConnectionState.CONNECTED:
            with suppress(SessionExpiredError):  # the session has ended meanwhile
                await self._store.end_session(self._session_id)

    def disconnect(self) -> None:
        """Break the connection and start the session timeout. For tests and simulations."""
        if self._state is not ConnectionState.CONNECTED:
            return
        for future in list(self._under_way):
            if not future.done():
                future.set_exception(ConnectionLossError("the connection was lost"))
        self._set_state(ConnectionState.SUSPENDED)
        self._expiry = asyncio.get_running_loop().call_later(self._timeout_ms / 1000, self._timed_out, self._session_id)

    def reconnect(self) -> None:
        """Restore the connection; if the session has ended meanwhile, it is now EXPIRED. For tests and simulations."""
        if self._state is not ConnectionState.SUSPENDED:
            return
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self._session_over:
            self._session_id = 0
            self._set_state(ConnectionState.EXPIRED)
        else:
            self._set_state(ConnectionState.CONNECTED)
            self._watches.fire_all()
        self._wake()

    def changed(self, changes: Sequence[NodeChange]) -> None:
        """Fire the watches for changes that have become visible. Called by the store."""
        if self._state is not ConnectionState.CONNECTED:
            return  # all watches fire when the connection is restored
        for kind, path in changes:
            self._watches.data_changed(path)
            if kind is not ChangeKind.SET:
                self._watches.children_changed(path)
                self._watches.children_changed(parent_of(path))

    def session_ended(self) -> None:
        """Note that the session has ended; without a connection, `reconnect` sets EXPIRED. Called by the store."""
        self._session_over = True
        if self._state is ConnectionState.CONNECTED:
            self._session_id = 0
            self._set_state(ConnectionState.EXPIRED)

    async def _connected(self) -> int:
        """Wait until there is a connection; return the session's id."""
        while self._state is ConnectionState.SUSPENDED:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self._state is ConnectionState.EXPIRED:
            raise SessionExpiredError("the session has expired")
        if self._state is ConnectionState.CLOSED:
            raise RegistryClosedError("the registry is not open")
        return self._session_id

    async def _write(self, apply: Callable[[Draft, Caller], T]) -> T:
        caller = Caller(await self._connected())
        future = self._store.write(caller.session_id, lambda draft: apply(draft, caller))
        self._under_way.add(future)
        try:
            return await future
        finally:
            self._under_way.discard(future)

    def _timed_out(self, session_id: int) -> None:
        self._expiry = None
        ended = self._store.end_session(session_id)
        # Retrieve an error: the session had ended already, or the store is closed. It has ended in any case.
        ended.add_done_callback(lambda future: future.exception())

    def _set_state(self, state: ConnectionState) -> None:
        self._state = state
        self._listeners.tell(state)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


if TYPE_CHECKING:
    _IMPLEMENTS: type[Registry] = EmbeddedRegistry

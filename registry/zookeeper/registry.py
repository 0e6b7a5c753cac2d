"""The registry on a real ZooKeeper, with kazoo. The queue of requests is in `registry.zookeeper.requests`.

Watches: ZooKeeper's watches fire once, with an event; those of the registry are permanent and have no event. So each
watched path is armed again by a read before the callback runs, and the callback's reads follow that read. A lost
connection disarms all watches. When it is restored, they are armed again and called, as changes may have been missed.

The chroot is added to paths here, not by kazoo.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kazoo.protocol import serialization as wire
from kazoo.security import ACL, Id

from registry.errors import (
    BadArgumentsError,
    NodeExistsError,
    NoNodeError,
    RegistryClosedError,
    SessionExpiredError,
)
from registry.interface import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    ConnectionState,
    Create,
    Delete,
    OpResult,
    Set,
    Stat,
)
from registry.listeners import StateListener, StateListeners
from registry.paths import parent_of, validate_path
from registry.request import validate_ops
from registry.watches import WatchHandle
from registry.znodes.protection import default_acl
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.chroot import make_chroot
from registry.zookeeper.errors import multi_error
from registry.zookeeper.requests import RequestKind, RequestQueue
from registry.zookeeper.security import UNSECURED, ZooKeeperSecurity
from registry.zookeeper.session import ZooKeeperSession, end_session
from registry.zookeeper.watches import ZooKeeperWatches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kazoo.client import KazooClient

    from registry.interface import Op, Registry

logger = logging.getLogger(__name__)

DEFAULT_SESSION_TIMEOUT_MS = 18_000  # Kafka's zookeeper.session.timeout.ms
DEFAULT_MAX_IN_FLIGHT = 10  # Kafka's zookeeper.max.in.flight.requests


class ZooKeeperRegistry:
    """A registry (see registry/interface.py) on a ZooKeeper ensemble. Everything runs on one event loop."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        *,
        connection_timeout_ms: int | None = None,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        make_chroot: bool = True,
        security: ZooKeeperSecurity = UNSECURED,
    ) -> None:
        """Create a registry; `start` connects it. connection_timeout_ms: the default is the session timeout."""
        self._security = security
        self._address = address
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
        self._makes_chroot = make_chroot
        self._state = ConnectionState.CLOSED
        self._closed = False  # set by `close`, never reset
        self._session: ZooKeeperSession | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()  # clients of sessions that have expired
        self._requests = RequestQueue(max_in_flight, self._suspended)
        self._listeners = StateListeners()
        self._watches = ZooKeeperWatches(address, self._queue_arming)

    @property
    def session_id(self) -> int:
        """The id of the session, which owns the ephemeral nodes created here; 0 without a session."""
        return 0 if self._session is None else self._session.credentials[0]

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """The session's id and password, with which another client can take the session over or end it
        (`end_session`).
        """
        return None if self._session is None else self._session.credentials

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout: the one that the servers granted, once there is a session."""
        return self._session_timeout_ms if self._session is None else self._session.timeout_ms

    @property
    def state(self) -> ConnectionState:
        """The latest state; listeners have been or will soon be called with it."""
        return self._state

    # -- the session -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open a session: the first one, or a new one after the last expired.

        The chroot is created if it is missing, unless the registry was created with `make_chroot=False`.

        Raises ConnectionLossError, which names the servers and the cause, if none of them answers in time; its
        subclass RegistryLoginError if one refuses the login.
        """
        async with self._starting:
            if self._closed:
                raise RegistryClosedError("the registry has been closed")
            if self._session is not None:
                return
            session = ZooKeeperSession(
                self._address, self._session_timeout_ms, self._session_state, security=self._security
            )
            self._session = session  # from here on it may be lost, expire, and be closed
            try:
                await session.open(self._connection_timeout_ms)
                if self._makes_chroot:
                    await make_chroot(
                        session.client,
                        self._address.chroot,
                        lambda path: _to_kazoo(default_acl(path, is_protected=self._security.sets_acls)),
                    )
            except BaseException:
                if self._session is session:
                    self._session = None
                    await session.close(wait=False)
                raise
            if self._closed:
                raise RegistryClosedError("the registry has been closed")
            if self._session is not session:
                raise SessionExpiredError("the session has expired")
            logger.info("session 0x%x on ZooKeeper, at %s", self.session_id, session.server)
            self._connected(session)

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes, and cancel the watches. Idempotent.

        Without a connection, the session ends when its timeout expires on the servers.
        """
        if self._closed:
            return
        self._closed = True
        state, self._state = self._state, ConnectionState.CLOSED
        session, self._session = self._session, None
        self._watches.clear()
        self._listeners.clear()
        self._requests.fail_all(RegistryClosedError("the registry has been closed"))
        if session is not None:
            await session.close(wait=state is ConnectionState.CONNECTED)
        if self._ending:
            await asyncio.wait(self._ending)

    async def end_session(self, credentials: tuple[int, bytes]) -> bool:
        """End another session by its id and password; return whether it still existed. Raises ConnectionLossError."""
        return await end_session(self._address, credentials, self._connection_timeout_ms, self._security)

    def listen(self, callback: Callable[[ConnectionState], None]) -> StateListener:
        """Call `callback` on the event loop with the new state after every change."""
        return self._listeners.add(callback)

    def _session_state(self, session: ZooKeeperSession, state: ConnectionState) -> None:
        """Handle a session's change of state; `start` handles the first one."""
        if session is not self._session:
            return
        if state is ConnectionState.EXPIRED:
            self._expired(session)
        elif self._state is ConnectionState.CLOSED:
            return  # still starting
        elif state is ConnectionState.SUSPENDED:
            self._suspended()
        elif self._state is ConnectionState.SUSPENDED:
            logger.info("reconnected to ZooKeeper at %s", session.server)
            self._connected(session)

    def _connected(self, session: ZooKeeperSession) -> None:
        def arm() -> None:  # listeners may add watches, too
            self._set_state(ConnectionState.CONNECTED)
            self._watches.arm_all()

        self._requests.resume(session.client, arm)
        self._watches.fire_all()

    def _suspended(self) -> None:
        if self._state is not ConnectionState.CONNECTED:
            return
        assert self._session is not None
        logger.warning("lost the connection to ZooKeeper at %s; reconnecting", self._session.server)
        self._watches.disarm_all()
        self._requests.suspend()
        self._set_state(ConnectionState.SUSPENDED)

    def _expired(self, session: ZooKeeperSession) -> None:
        logger.error("session 0x%x on ZooKeeper has expired", session.credentials[0])
        self._session = None
        self._watches.disarm_all()
        ending = asyncio.get_running_loop().create_task(session.close(wait=False))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        if self._state is not ConnectionState.CLOSED:
            self._set_state(ConnectionState.EXPIRED)
        self._requests.fail_all(SessionExpiredError("the session has expired"))

    def _set_state(self, state: ConnectionState) -> None:
        self._state = state
        self._listeners.tell(state)

    async def _call(self, path: str, send: Callable[[KazooClient], Any], kind: RequestKind = RequestKind.WRITE) -> Any:
        if self._state is ConnectionState.EXPIRED:
            raise SessionExpiredError("the session has expired")
        if self._state is ConnectionState.CLOSED:
            raise RegistryClosedError("the registry is not open")
        return await self._requests.add(path, send, kind)

    # -- nodes -------------------------------------------------------------------------------------------------------

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
        op = self._with_acl(Create(path, data, ephemeral, sequence, acl))
        self._validate([op])
        try:
            return await self._create(op)
        except NoNodeError:
            if not make_parents:
                raise
        with suppress(NodeExistsError):  # created by another client meanwhile
            await self.create(parent_of(path), acl=acl, make_parents=True)
        return await self._create(op)

    async def _create(self, op: Create) -> str:
        path = op.path if op.sequence else self._address.full(op.path)
        if op.sequence:
            path = self._address.chroot + op.path  # the path may end with a slash
        acl = _to_kazoo(op.acl)

        def send(client: KazooClient) -> Any:
            return client.create_async(path, op.data, acl=acl, ephemeral=op.ephemeral, sequence=op.sequence)

        created: str = await self._call(op.path, send, RequestKind.CREATE)
        return self._address.local(created)

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        """Return the data and the stat."""
        full = self._full(path)
        data, stat = await self._call(path, lambda client: client.get_async(full), RequestKind.READ)
        return data, Stat(*stat)

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data."""
        self._validate([Set(path, data, version)])
        full = self._full(path)
        return Stat(*await self._call(path, lambda client: client.set_async(full, data, version)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node."""
        full = self._full(path)
        _not_root(path)
        await self._call(path, lambda client: client.delete_async(full, version))

    async def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None if it does not exist."""
        full = self._full(path)
        stat = await self._call(path, lambda client: client.exists_async(full), RequestKind.READ)
        return None if stat is None else Stat(*stat)

    async def sync(self) -> None:
        """See `Registry.sync`."""
        await self._call("/", lambda client: client.sync_async("/"), RequestKind.READ)

    async def children(self, path: str) -> list[str]:
        """Return the names of the children."""
        full = self._full(path)
        names: list[str] = await self._call(path, lambda client: client.get_children_async(full), RequestKind.READ)
        return names

    async def children_with_stat(self, path: str) -> tuple[list[str], Stat]:
        """Return the names of the children and the node's stat."""
        full = self._full(path)
        names, stat = await self._call(
            path, lambda client: client.get_children_async(full, include_data=True), RequestKind.READ
        )
        return names, Stat(*stat)

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        """Return the node's ACL and stat."""
        full = self._full(path)
        acl, stat = await self._call(path, lambda client: client.get_acls_async(full), RequestKind.READ)
        return tuple(Acl(entry.perms, entry.id.scheme, entry.id.id) for entry in acl), Stat(*stat)

    async def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL; `version` is the stat's aversion."""
        full = self._full(path)
        entries = _to_kazoo(acl)
        return Stat(*await self._call(path, lambda client: client.set_acls_async(full, entries, version)))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Apply all operations or none, in order; return their results in order."""
        ops = [self._with_acl(op) if isinstance(op, Create) else op for op in ops]
        self._validate(ops)
        for op in ops:
            if isinstance(op, Delete):
                _not_root(op.path)
        operations = [self._operation(op) for op in ops]

        def send(client: KazooClient) -> Any:
            transaction = client.transaction()
            transaction.operations.extend(operations)  # the transaction's own methods refuse a node without data
            return transaction.commit_async()

        results = await self._call(ops[0].path if ops else "/", send)
        error = multi_error(ops, results)
        if error is not None:
            raise error
        return [self._result(result) for result in results]

    def _operation(self, op: Op) -> Any:
        full = self._address.full(op.path)
        if isinstance(op, Create):
            flags = (1 if op.ephemeral else 0) | (2 if op.sequence else 0)
            path = self._address.chroot + op.path if op.sequence else full
            return wire.Create(path, op.data, _to_kazoo(op.acl), flags)
        if isinstance(op, Set):
            return wire.SetData(full, op.data, op.version)
        if isinstance(op, Delete):
            return wire.Delete(full, op.version)
        return wire.CheckVersion(full, op.version)

    def _result(self, result: Any) -> OpResult:
        if isinstance(result, str):
            return self._address.local(result)
        return Stat(*result) if isinstance(result, tuple) else None

    # -- watches -----------------------------------------------------------------------------------------------------

    def watch_data(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Call `callback` on the event loop after the node was created or deleted, or its data was set."""
        validate_path(path)
        return self._watches.add_data(path, callback)

    def watch_children(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Call `callback` on the event loop after the node or one of its children was created or deleted."""
        validate_path(path)
        return self._watches.add_children(path, callback)

    def _queue_arming(self, path: str, send: Callable[[KazooClient], Any]) -> asyncio.Future[Any] | None:
        """Queue the read that arms a watch; None without a connection: a new connection arms all watches."""
        if self._state is not ConnectionState.CONNECTED:
            return None
        return self._requests.add(path, send, RequestKind.ARMING)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _full(self, path: str) -> str:
        validate_path(path)
        return self._address.full(path)

    def _with_acl(self, op: Create) -> Create:
        if op.acl is not None or not self._security.sets_acls:
            return op
        return op._replace(acl=default_acl(op.path))

    def _validate(self, ops: Sequence[Op]) -> None:
        validate_ops(ops, len(self._address.chroot.encode()))


def _not_root(path: str) -> None:
    if path == "/":
        raise BadArgumentsError("/: the root cannot be deleted", "/")


def _to_kazoo(acl: Sequence[Acl] | None) -> list[ACL]:
    return [ACL(entry.permissions, Id(entry.scheme, entry.id)) for entry in (OPEN_ACL if acl is None else acl)]


if TYPE_CHECKING:
    _IMPLEMENTS: type[Registry] = ZooKeeperRegistry

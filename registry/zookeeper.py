"""The registry on a real ZooKeeper, over kazoo.

Requests stand in one queue and are handed to kazoo in the order of the calls, at most
`zookeeper.max.in.flight.requests` at a time. What happens to them when the connection is lost:

* *Not sent yet*: they wait for the connection to come back, or for the session to expire.
* *Reads under way* are sent again, in their order: a second read does no harm.
* *Writes under way* raise ConnectionLossError, every one of them. Kafka's client sends them again and then tries to
  tell from what it finds whether the first attempt had been applied, each kind of write in its own way. Here the
  caller looks, because only the caller knows what its write meant: a version that has moved on may be its own
  doing or a rival's.

Watches: ZooKeeper's fire once and carry an event; ours last and carry nothing. So each watched path is armed again with
a read of its own before the callback runs, and whatever the callback reads is read after that. A lost connection
disarms all of them; they are armed anew and called when it is back, since anything may have been missed.

The chroot is put in front of paths here and not by kazoo, which so has to know nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.protocol import serialization as wire
from kazoo.security import ACL, Id

from registry.errors import (
    BadArgumentsError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    RegistryClosedError,
    RegistryError,
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
from registry.zookeeper_address import ZooKeeperAddress
from registry.zookeeper_errors import LOST, multi_error, translated
from registry.zookeeper_session import ZooKeeperSession, end_session
from registry.zookeeper_watches import ZooKeeperWatches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kazoo.client import KazooClient

    from registry.interface import Op, Registry

logger = logging.getLogger(__name__)

DEFAULT_SESSION_TIMEOUT_MS = 18_000  # Kafka's zookeeper.session.timeout.ms
DEFAULT_MAX_IN_FLIGHT = 10  # Kafka's zookeeper.max.in.flight.requests


class _Kind(Enum):
    """What a request is, and so what becomes of it when the connection is lost."""

    READ = 0
    WRITE = 1
    CREATE = 2  # a write; what is missing is the parent
    ARMING = 3  # a read that arms a watch: dropped, all watches are armed anew


class _Request:
    """One call: how it is handed to kazoo, and who waits for the answer."""

    __slots__ = ("future", "kind", "number", "path", "send")

    def __init__(
        self,
        number: int,
        path: str,
        send: Callable[[KazooClient], Any],
        future: asyncio.Future[Any],
        kind: _Kind,
    ) -> None:
        self.number = number  # order of the calls
        self.path = path
        self.send = send
        self.future = future
        self.kind = kind

    def fail(self, error: RegistryError) -> None:
        """Tell the caller, unless it has stopped waiting."""
        if not self.future.done():
            self.future.set_exception(error)


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
    ) -> None:
        """Make a registry; `await registry.start()` connects it, within the session's timeout if no other is given."""
        self._address = address
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms
        self._max_in_flight = max_in_flight
        self._makes_chroot = make_chroot
        self._state = ConnectionState.CLOSED
        self._closed = False  # for good
        self._session: ZooKeeperSession | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()  # clients of sessions that have expired
        self._backlog: deque[_Request] = deque()
        self._in_flight: set[_Request] = set()
        self._calls = 0
        self._listeners = StateListeners()
        self._watches = ZooKeeperWatches(address, self._queue_arming)

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes created here; 0 without a session."""
        return 0 if self._session is None else self._session.credentials[0]

    @property
    def credentials(self) -> tuple[int, bytes] | None:
        """The session's id and password: who knows them can take it over, or end it (`end_session`)."""
        return None if self._session is None else self._session.credentials

    @property
    def session_timeout_ms(self) -> int:
        """After how long without a word from us the servers end the session: what they granted, once there is one."""
        return self._session_timeout_ms if self._session is None else self._session.timeout_ms

    @property
    def state(self) -> ConnectionState:
        """The state that listeners have heard, or are about to hear."""
        return self._state

    # -- the session -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open a session: the first one, or a new one after the last expired.

        The chroot is created if missing, unless the registry was made without `make_chroot`.

        Raises ConnectionLossError naming the servers and the cause where none of them answers in time.
        """
        async with self._starting:
            if self._closed:
                raise RegistryClosedError("the registry has been closed")
            if self._session is not None:
                return
            session = ZooKeeperSession(self._address, self._session_timeout_ms, self._session_state)
            self._session = session  # from here on it may be lost, expire, and be closed
            try:
                await session.open(self._connection_timeout_ms)
                await self._make_chroot(session)
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
            self._connected()

    async def close(self) -> None:
        """End the session, which removes its ephemeral nodes, and forget the watches. Idempotent.

        Without a connection the servers cannot be told: they end the session when its timeout is over.
        """
        if self._closed:
            return
        self._closed = True
        state, self._state = self._state, ConnectionState.CLOSED
        session, self._session = self._session, None
        self._watches.clear()
        self._listeners.clear()
        self._fail_all(RegistryClosedError("the registry has been closed"))
        if session is not None:
            await session.close(wait=state is ConnectionState.CONNECTED)
        if self._ending:
            await asyncio.wait(self._ending)

    async def end_session(self, credentials: tuple[int, bytes]) -> bool:
        """End another session by its id and password; whether it was still there. Raises ConnectionLossError."""
        return await end_session(self._address, credentials, self._connection_timeout_ms)

    def listen(self, callback: Callable[[ConnectionState], None]) -> StateListener:
        """Call back on the event loop with every change of state."""
        return self._listeners.add(callback)

    def _session_state(self, session: ZooKeeperSession, state: ConnectionState) -> None:
        """Hear of a session's change of state; `start` itself sees to the first."""
        if session is not self._session:
            return
        if state is ConnectionState.EXPIRED:
            self._expired(session)
        elif self._state is ConnectionState.CLOSED:
            return  # still starting
        elif state is ConnectionState.SUSPENDED:
            self._suspended()
        elif self._state is ConnectionState.SUSPENDED:
            logger.info("connected to ZooKeeper again, at %s", session.server)
            self._connected()

    def _connected(self) -> None:
        waiting = sorted(self._backlog, key=lambda request: request.number)  # reads to be repeated among them
        self._backlog.clear()
        self._set_state(ConnectionState.CONNECTED)
        self._watches.arm_all()
        self._backlog.extend(waiting)
        self._send()
        self._watches.fire_all()

    def _suspended(self) -> None:
        if self._state is not ConnectionState.CONNECTED:
            return
        assert self._session is not None
        logger.warning("lost the connection to ZooKeeper at %s; trying again", self._session.server)
        self._watches.disarm_all()
        self._backlog = deque(request for request in self._backlog if request.kind is not _Kind.ARMING)
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
        self._fail_all(SessionExpiredError("the session has expired"))

    def _set_state(self, state: ConnectionState) -> None:
        self._state = state
        self._listeners.tell(state)

    async def _make_chroot(self, session: ZooKeeperSession) -> None:
        """Create our root and its parents, as Kafka does."""
        chroot = self._address.chroot
        if not chroot or not self._makes_chroot:
            return
        names = chroot[1:].split("/")
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            while True:
                try:
                    if await _answer(session.client.exists_async(path), path) is None:
                        await _answer(session.client.create_async(path, None), path)
                        logger.info("created %s on ZooKeeper", path)
                except ConnectionLossError:
                    continue
                except NodeExistsError:  # somebody else was faster
                    pass
                break

    # -- the queue of requests ---------------------------------------------------------------------------------------

    async def _call(self, path: str, send: Callable[[KazooClient], Any], kind: _Kind = _Kind.WRITE) -> Any:
        if self._state is ConnectionState.EXPIRED:
            raise SessionExpiredError("the session has expired")
        if self._state is ConnectionState.CLOSED:
            raise RegistryClosedError("the registry is not open")
        return await self._queue(path, send, kind).future

    def _queue(self, path: str, send: Callable[[KazooClient], Any], kind: _Kind) -> _Request:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls += 1
        request = _Request(self._calls, path, send, future, kind)
        self._backlog.append(request)
        self._send()
        return request

    def _send(self) -> None:
        """Hand to kazoo what may be under way."""
        session = self._session
        while (
            self._state is ConnectionState.CONNECTED
            and session is not None
            and self._backlog
            and len(self._in_flight) < self._max_in_flight
        ):
            request = self._backlog.popleft()
            if request.future.done():  # its caller has stopped waiting
                continue
            self._in_flight.add(request)
            request.send(session.client).rawlink(partial(self._answered, request))

    def _answered(self, request: _Request, result: Any) -> None:
        if request not in self._in_flight:
            return  # its session has ended meanwhile
        self._in_flight.discard(request)
        try:
            value = result.get_nowait()
        except Exception as problem:
            error = translated(problem, request.path, creates=request.kind is _Kind.CREATE)
            if isinstance(problem, LOST):
                self._suspended()  # the state's change is on its way; nothing more must be sent before it
            if isinstance(error, ConnectionLossError) and request.kind is _Kind.READ and not request.future.done():
                self._backlog.append(request)
            else:
                request.fail(error)
        else:
            if not request.future.done():
                request.future.set_result(value)
        self._send()

    def _fail_all(self, error: RegistryError) -> None:
        requests = sorted([*self._in_flight, *self._backlog], key=lambda request: request.number)
        self._in_flight.clear()
        self._backlog.clear()
        for request in requests:
            request.fail(type(error)(str(error), request.path))

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
        """Create a node and return its path; errors as the interface says."""
        op = Create(path, data, ephemeral, sequence, acl)
        self._validate([op])
        try:
            return await self._create(op)
        except NoNodeError:
            if not make_parents:
                raise
        with suppress(NodeExistsError):  # somebody else was faster
            await self.create(parent_of(path), acl=acl, make_parents=True)
        return await self._create(op)

    async def _create(self, op: Create) -> str:
        path = op.path if op.sequence else self._address.full(op.path)
        if op.sequence:
            path = self._address.chroot + op.path  # it may end with a slash
        acl = _to_kazoo(op.acl)

        def send(client: KazooClient) -> Any:
            return client.create_async(path, op.data, acl=acl, ephemeral=op.ephemeral, sequence=op.sequence)

        created: str = await self._call(op.path, send, _Kind.CREATE)
        return self._address.local(created)

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        """Data and stat."""
        full = self._full(path)
        data, stat = await self._call(path, lambda client: client.get_async(full), _Kind.READ)
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
        """Stat of the node, None if there is none."""
        full = self._full(path)
        stat = await self._call(path, lambda client: client.exists_async(full), _Kind.READ)
        return None if stat is None else Stat(*stat)

    async def children(self, path: str) -> list[str]:
        """Names of the children."""
        full = self._full(path)
        names: list[str] = await self._call(path, lambda client: client.get_children_async(full), _Kind.READ)
        return names

    async def children_with_stat(self, path: str) -> tuple[list[str], Stat]:
        """Names of the children, and the stat of the node itself."""
        full = self._full(path)
        names, stat = await self._call(
            path, lambda client: client.get_children_async(full, include_data=True), _Kind.READ
        )
        return names, Stat(*stat)

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        """The node's ACL and stat."""
        full = self._full(path)
        acl, stat = await self._call(path, lambda client: client.get_acls_async(full), _Kind.READ)
        return tuple(Acl(entry.perms, entry.id.scheme, entry.id.id) for entry in acl), Stat(*stat)

    async def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL; `version` is the stat's aversion."""
        full = self._full(path)
        entries = _to_kazoo(acl)
        return Stat(*await self._call(path, lambda client: client.set_acls_async(full, entries, version)))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Apply all operations or none, in order; their results in order."""
        self._validate(ops)
        for op in ops:
            if isinstance(op, Delete):
                _not_root(op.path)
        operations = [self._operation(op) for op in ops]

        def send(client: KazooClient) -> Any:
            transaction = client.transaction()
            transaction.operations.extend(operations)  # its own methods refuse a node without data
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
        """Call back on the event loop after the node was created, deleted or its data set."""
        validate_path(path)
        return self._watches.add_data(path, callback)

    def watch_children(self, path: str, callback: Callable[[], None]) -> WatchHandle:
        """Call back on the event loop after the node was created or deleted, or a child of it was."""
        validate_path(path)
        return self._watches.add_children(path, callback)

    def _queue_arming(self, path: str, send: Callable[[KazooClient], Any]) -> asyncio.Future[Any] | None:
        """Queue the read that arms a watch; None without a connection: all are armed when there is one."""
        if self._state is not ConnectionState.CONNECTED:
            return None
        return self._queue(path, send, _Kind.ARMING).future

    # -- small parts -------------------------------------------------------------------------------------------------

    def _full(self, path: str) -> str:
        validate_path(path)
        return self._address.full(path)

    def _validate(self, ops: Sequence[Op]) -> None:
        validate_ops(ops, len(self._address.chroot.encode()))


def _not_root(path: str) -> None:
    if path == "/":
        raise BadArgumentsError("/: the root cannot be deleted", "/")


def _to_kazoo(acl: Sequence[Acl] | None) -> list[ACL]:
    return [ACL(entry.permissions, Id(entry.scheme, entry.id)) for entry in (OPEN_ACL if acl is None else acl)]


async def _answer(result: Any, path: str) -> Any:
    """Wait for one of kazoo's results. Raises the registry's error."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(result: Any) -> None:
        if future.done():
            return
        try:
            future.set_result(result.get_nowait())
        except Exception as problem:
            future.set_exception(translated(problem, path))

    result.rawlink(answered)
    return await future


if TYPE_CHECKING:
    _IMPLEMENTS: type[Registry] = ZooKeeperRegistry

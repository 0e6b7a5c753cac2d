"""A process's session with the embedded registry, as over a network: requests and answers take time and may be lost.

The store and its sessions run in nobody's process; what a process hears, it hears in its own. The session itself is
the production one (registry/embedded/session.py), whose `disconnect`, `reconnect` and `expire` are made for this. What
is added is what a wire adds: a write whose answer is on its way when the connection breaks raises ConnectionLossError
although it was done, watches come late, and reads are answered by a server that may lag behind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from registry.embedded.session import EmbeddedRegistry
from registry.embedded.store import EmbeddedStore
from registry.embedded.tree import NodeChange, Tree
from registry.errors import ConnectionLossError, SessionExpiredError
from registry.interface import ANY_VERSION, Acl, ConnectionState, Op, OpResult, Stat, Watch
from support.simulation.process import NOBODY, SimulatedProcess
from support.simulation.registry_server import RegistryServer

T = TypeVar("T")

_LATENCY_S = (0.0003, 0.003)


class SimulatedStore:
    """Stands in for the store of a broker: it makes the sessions of one process."""

    def __init__(self, store: EmbeddedStore, process: SimulatedProcess, rng: random.Random) -> None:
        self._store = store
        self._process = process
        self._random = rng
        self.sessions: list[SimulatedSession] = []

    def session(self, timeout_ms: int) -> SimulatedSession:
        """See `EmbeddedStore.session`."""
        made = SimulatedSession(self._store, timeout_ms, self._process, self._random)
        self.sessions.append(made)
        return made


class _LateWatch:
    """A watch or listener whose calls reach the process later."""

    def __init__(self, session: SimulatedSession, callback: Callable[..., None]) -> None:
        self._session = session
        self._callback: Callable[..., None] | None = callback
        self.inner: Watch | None = None

    def fire(self, *arguments: object) -> None:
        """The event has happened at the server."""
        self._session.hear(self._call, *arguments)

    def _call(self, *arguments: object) -> None:
        self._session.server.catch_up()
        if self._callback is not None:
            self._callback(*arguments)

    def cancel(self) -> None:
        """Stop calling the callback."""
        self._callback = None
        if self.inner is not None:
            self.inner.cancel()


class SimulatedSession:
    """A `Registry` (registry/interface.py) in one process."""

    def __init__(self, store: EmbeddedStore, timeout_ms: int, process: SimulatedProcess, rng: random.Random) -> None:
        now_s = asyncio.get_running_loop().time
        self.server = RegistryServer(store, random.Random(rng.getrandbits(64)), now_s)
        self.inner = store.session(timeout_ms)
        self.inner.changed = self._changed  # type: ignore[method-assign]
        self._process = process
        self._random = rng
        self._breaks = 0  # how often the connection was lost: what was asked before is not answered after
        self._last_request = 0.0
        self._last_answer = 0.0
        self.lag_s = 0.0
        """How much later than usual the process hears of anything."""

    # -- faults ------------------------------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Cut the connection: the session's timeout runs."""
        self._breaks += 1
        self.inner.disconnect()

    def reconnect(self) -> None:
        """Restore the connection, and learn whether the session still exists."""
        self.inner.reconnect()

    async def expire(self) -> None:
        """End the session at the server."""
        self._breaks += 1
        await asyncio.get_running_loop().create_task(self.inner.expire(), context=NOBODY)

    def _changed(self, changes: Sequence[NodeChange]) -> None:
        """The store has committed this: the server gets it, and then the watches fire."""
        self.server.changed(changes)
        EmbeddedRegistry.changed(self.inner, changes)

    # -- the wire ----------------------------------------------------------------------------------------------------

    def _next(self, last: float, lag_s: float = 0.0) -> float:
        """When something passes that was sent now: behind what was sent before."""
        now = asyncio.get_running_loop().time()
        return max(last + 1e-6, now + lag_s + self._random.uniform(*_LATENCY_S))

    def hear(self, callback: Callable[..., None], *arguments: object) -> None:
        """Deliver an event of the server to the process."""
        self._last_answer = due = self._next(self._last_answer, self.lag_s)
        asyncio.get_running_loop().call_at(due, callback, *arguments, context=self._process.context)

    async def _ask(self, call: Callable[..., Awaitable[Any]], *arguments: Any, writes: bool, **named: Any) -> Any:
        loop = asyncio.get_running_loop()
        while True:
            future: asyncio.Future[Any] = loop.create_future()
            breaks = self._breaks
            self._last_request = due = self._next(self._last_request)
            loop.call_at(due, self._begin, future, call, arguments, named, writes, context=NOBODY)
            result, error = await future
            if breaks != self._breaks and error is None and self.inner.state is not ConnectionState.CLOSED:
                if self.inner.state is ConnectionState.EXPIRED:
                    raise SessionExpiredError("the session has expired")
                if writes:
                    raise ConnectionLossError("the connection was lost before the answer came")
                continue
            if error is not None:
                raise error
            return result

    async def _read(self, look: Callable[[Tree], T]) -> T:
        """What the server of the session knows, when it gets the request."""

        async def read() -> T:
            await self.inner.sync()
            return look(self.server.tree())

        found: T = await self._ask(read, writes=False)
        return found

    def _begin(
        self,
        future: asyncio.Future[Any],
        call: Callable[..., Awaitable[Any]],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        writes: bool,
    ) -> None:
        async def work() -> None:
            try:
                outcome: tuple[Any, Exception | None] = (await call(*arguments, **named), None)
            except Exception as error:
                outcome = (None, error)
            if writes:
                self.server.catch_up()  # it has the write, and with it everything before
            self.hear(_answer, future, outcome)

        asyncio.get_running_loop().create_task(work(), context=NOBODY)

    # -- the interface -----------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes created here."""
        return self.inner.session_id

    @property
    def state(self) -> ConnectionState:
        """The state that has been or will be reported to listeners."""
        return self.inner.state

    async def start(self) -> None:
        """Open a session."""

        async def start() -> None:
            await self.inner.start()
            self.server.begin()

        await self._ask(start, writes=False)

    async def close(self) -> None:
        """End the session."""
        await self._ask(self.inner.close, writes=False)

    def listen(self, callback: Callable[[ConnectionState], None]) -> Watch:
        """Call back with every change of state."""
        watch = _LateWatch(self, callback)
        watch.inner = self.inner.listen(watch.fire)
        return watch

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
        """Create a node."""
        named = {"ephemeral": ephemeral, "sequence": sequence, "acl": acl, "make_parents": make_parents}
        return str(await self._ask(self.inner.create, path, data, writes=True, **named))

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        """Data and stat."""
        node = await self._read(lambda tree: tree.node(path))
        return node.data, node.stat()

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data."""
        stat: Stat = await self._ask(self.inner.set, path, data, version, writes=True)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node."""
        await self._ask(self.inner.delete, path, version, writes=True)

    async def exists(self, path: str) -> Stat | None:
        """Stat of the node."""
        node = await self._read(lambda tree: tree.get(path))
        return None if node is None else node.stat()

    async def sync(self) -> None:
        """See what others have written."""

        async def sync() -> None:
            await self.inner.sync()
            self.server.catch_up()

        await self._ask(sync, writes=False)

    async def children(self, path: str) -> list[str]:
        """Names of the children."""
        return (await self.children_with_stat(path))[0]

    async def children_with_stat(self, path: str) -> tuple[list[str], Stat]:
        """Names of the children, and the stat of the node."""
        names, node = await self._read(lambda tree: (tree.children(path), tree.node(path)))
        return names, node.stat()

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        """ACL and stat."""
        found: tuple[tuple[Acl, ...], Stat] = await self._ask(self.inner.get_acl, path, writes=False)
        return found

    async def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL."""
        stat: Stat = await self._ask(self.inner.set_acl, path, acl, version, writes=True)
        return stat

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Apply all operations or none."""
        results: list[OpResult] = await self._ask(self.inner.multi, ops, writes=True)
        return results

    def watch_data(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call back after the node has changed."""
        self.server.catch_up()
        watch = _LateWatch(self, callback)
        watch.inner = self.inner.watch_data(path, watch.fire)
        return watch

    def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call back after the node's children have changed."""
        self.server.catch_up()
        watch = _LateWatch(self, callback)
        watch.inner = self.inner.watch_children(path, watch.fire)
        return watch


def _answer(future: asyncio.Future[Any], outcome: tuple[Any, Exception | None]) -> None:
    if not future.done():
        future.set_result(outcome)

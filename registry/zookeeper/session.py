"""One ZooKeeper session: a kazoo client whose thread reports to the event loop.

kazoo talks to the servers in a thread of its own. Everything that it has to tell (answers, watches, changes of state)
reaches the event loop through `LoopHandler`, in the order in which that thread saw it, and nothing here ever waits for
the thread on the loop.

A client serves one session and no other. Left to itself kazoo opens a new session after an expiry, and a request that
was handed to it just then would be carried out in that one. So `LoopHandler` refuses every further connection from
the moment at which the session has ended, which kazoo's thread learns before anybody else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from registry.errors import ConnectionLossError, RegistryClosedError
from registry.interface import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.protocol.states import Callback

    from registry.zookeeper.address import ZooKeeperAddress

# kazoo tells of every attempt to connect; what a person has to know of it, ZooKeeperRegistry says.
_kazoo_logger = logging.getLogger("registry.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# Between two rounds over all servers: soon after the first, then a second apart. Each round looks the names up anew.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0
_CLOSE_TIMEOUT_S = 5.0

_STATES = {
    KazooState.CONNECTED: ConnectionState.CONNECTED,
    KazooState.SUSPENDED: ConnectionState.SUSPENDED,
    KazooState.LOST: ConnectionState.EXPIRED,
}


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's way to threads and sockets: callbacks run on the event loop, connections end with the session."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connect_timeout_s: float) -> None:
        super().__init__()
        self._loop = loop
        self._connect_timeout_s = connect_timeout_s
        self.completion_queue = self  # kazoo puts the callbacks of answers here
        self.session_over = False
        self.refused = 0  # attempts to connect since then
        self.socket_in_use: socket.socket | None = None
        self.server = ""  # the server that was tried last
        self.outcome = ""  # what became of the last attempt that has ended

    @property
    def running(self) -> bool:
        """Always: otherwise kazoo would run callbacks in its own thread."""
        return True

    def start(self) -> None:
        """There are no worker threads to start."""

    def stop(self) -> None:
        """There are no worker threads to stop."""

    def put(self, callback: Callable[[], None]) -> None:
        """Run the callback of an answer on the loop."""
        self.post(callback)

    def dispatch_callback(self, callback: Callback) -> None:
        """Run a watch's callback on the loop."""
        self.post(callback.func, *callback.args)

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function on the loop, from any thread; a loop that is closed needs nothing any more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect to one server, with an equal share of the session's time for each, as Kafka's client does."""
        if self.session_over:
            self.refused += 1
            raise OSError("the session is over")
        host, port = (args[0] if args else options["address"])[:2]
        name = options.get("hostname") or host
        self.server = f"{name}:{port}" if name == host else f"{name}:{port} ({host})"
        options["timeout"] = self._connect_timeout_s
        try:
            self.socket_in_use = super().create_connection(*args, **options)
        except OSError as error:
            self.outcome = f"{self.server}: {error.strerror or error}"
            raise
        self.outcome = f"{self.server} is reached but opens no session (do a majority of the servers run?)"
        return self.socket_in_use


class ZooKeeperSession:
    """A session from its first connection to its end."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        timeout_ms: int,
        on_state: Callable[[ZooKeeperSession, ConnectionState], None],
        credentials: tuple[int, bytes] | None = None,
    ) -> None:
        """`on_state` hears on the loop of each change; `credentials` are those of an existing session to take over."""
        self._address = address
        self._on_state = on_state
        loop = asyncio.get_running_loop()
        self._handler = LoopHandler(loop, timeout_ms / 1000 / len(address.servers))
        self.client = KazooClient(
            hosts=address.hosts,
            timeout=timeout_ms / 1000,
            client_id=credentials,
            handler=self._handler,
            randomize_hosts=True,
            connection_retry=KazooRetry(max_tries=-1, delay=_FIRST_PAUSE_S, max_delay=_LONGEST_PAUSE_S),
            logger=_kazoo_logger,
        )
        self.client.add_listener(self._state_changed)
        self._timeout_ms = timeout_ms
        self._note_granted_timeout()
        # Id and password: who knows them can take the session over, or end it.
        self.credentials: tuple[int, bytes] = (0, b"")
        self._connected: asyncio.Future[None] = loop.create_future()  # for the first time
        self._stopped: asyncio.Future[None] | None = None  # set when the client has been told to stop

    @property
    def server(self) -> str:
        """The server that is or was last connected to."""
        return self._handler.server

    @property
    def timeout_ms(self) -> int:
        """After how long without a word from us the servers end the session: what they granted, once connected."""
        return self._timeout_ms

    def _note_granted_timeout(self) -> None:
        """Servers have bounds of their own for what is asked. kazoo keeps the outcome to itself, as two thirds of
        it.
        """
        connection = self.client._connection
        connect = connection._connect

        def connect_and_note(*args: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*args)
            self._timeout_ms = round(read_timeout_ms * 3 / 2)
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_note

    async def open(self, timeout_ms: int) -> None:
        """Connect for the first time. A session to take over that is gone is replaced by a new one.

        Raises ConnectionLossError naming the servers and the cause where none answers in time, RegistryClosedError
        after a `close` meanwhile.
        """
        self.client.start_async()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._connected
        except BaseException as error:
            reason = await self._why() if isinstance(error, TimeoutError) else ""
            await self.close(wait=False)
            if not isinstance(error, TimeoutError):
                raise
            limit = f"within {timeout_ms} ms (zookeeper.connection.timeout.ms)"
            raise ConnectionLossError(f"no session on ZooKeeper at {self._address} {limit}: {reason}") from None

    async def close(self, *, wait: bool = True) -> None:
        """End the session, if the servers can be reached, and the thread. Idempotent.

        Waits a few seconds at most: a session that cannot be ended expires. With `wait` false it only sees to it that
        the thread stops.
        """
        if not self._connected.done():
            self._connected.set_exception(RegistryClosedError("the registry has been closed"))
            self._connected.exception()  # nobody need be waiting
        if not wait:
            self._disconnect()
        if self._stopped is None:
            self._stopped = self._stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.shield(self._stopped)
        self._disconnect()

    def _stop(self) -> asyncio.Future[None]:
        """Stop the client in a thread of its own, since that waits for kazoo's."""
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stop() -> None:
            try:
                self.client.stop()
                self.client.close()
            except Exception as error:
                _kazoo_logger.debug("a client did not stop: %r", error)
            self._handler.post(_finish, stopped)

        threading.Thread(target=stop, name="zookeeper-stop", daemon=True).start()
        return stopped

    def _disconnect(self) -> None:
        """Wake the thread out of whatever it waits for, and let it connect no more."""
        self._handler.session_over = True
        connection = self._handler.socket_in_use
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _state_changed(self, state: str) -> None:
        """In kazoo's thread: a change of state."""
        if state == KazooState.LOST:
            self._handler.session_over = True
        elif state == KazooState.CONNECTED:
            self.credentials = self.client.client_id
        self._handler.post(self._tell, _STATES[state])

    def _tell(self, state: ConnectionState) -> None:
        _finish(self._connected)
        self._on_state(self, state)

    async def _why(self) -> str:
        """Why there is no connection yet."""
        handler = self._handler
        if handler.outcome:
            return handler.outcome
        if handler.server:
            return f"{handler.server} does not answer"
        loop = asyncio.get_running_loop()
        for host, port in self._address.servers:
            try:
                await loop.getaddrinfo(host, port)
            except OSError as error:
                return f"{host}: {error.strerror or error}"
        return "no server was reached"


async def end_session(address: ZooKeeperAddress, credentials: tuple[int, bytes], timeout_ms: int) -> bool:
    """End a session that somebody else opened, with its ephemeral nodes; whether it was still there.

    Its owner's connection is closed by the servers, and when it connects again it learns of the expiry. Raises
    ConnectionLossError.
    """
    session = ZooKeeperSession(address, timeout_ms, lambda _session, _state: None, credentials)
    await session.open(timeout_ms)
    was_there = session.credentials == credentials
    await session.close()
    return was_there


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

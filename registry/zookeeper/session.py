"""One ZooKeeper session: a kazoo client whose thread reports to the event loop.

kazoo communicates with the servers in its own thread. `LoopHandler` passes its callbacks (answers, watches, changes of
state) to the event loop, in the order in which that thread got them. The event loop never waits for the thread.

A client serves one session only. By default kazoo opens a new session after an expiry, and would execute a request that
it has just got in the new session. So `LoopHandler` refuses all connections after the session has ended; kazoo's
thread is the first to know about the end.

With a login, a connection counts as restored after the login, which each connection repeats. A login that is refused
ends the session.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from registry.errors import ConnectionLossError, RegistryClosedError, RegistryLoginError, ZooKeeperSettingError
from registry.interface import ConnectionState
from registry.zookeeper.login import LoginPostponed, LoginRefused, log_in
from registry.zookeeper.security import UNSECURED, ZooKeeperSecurity
from registry.zookeeper.tls_socket import TlsSocket, reason

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from kazoo.protocol.states import Callback

    from registry.zookeeper.address import ZooKeeperAddress

logger = logging.getLogger(__name__)

# kazoo logs every attempt to connect. ZooKeeperRegistry logs what users need to know.
_kazoo_logger = logging.getLogger(f"{__package__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

# The pause between two rounds over all servers grows from the first to the longest. Each round resolves the names.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0
_CLOSE_TIMEOUT_S = 5.0

_STATES = {
    KazooState.CONNECTED: ConnectionState.CONNECTED,
    KazooState.SUSPENDED: ConnectionState.SUSPENDED,
    KazooState.LOST: ConnectionState.EXPIRED,
}


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler of threads and sockets: runs callbacks on the event loop, refuses connections after the end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connect_timeout_s: float, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        super().__init__()
        self._loop = loop
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self.completion_queue = self  # kazoo puts the callbacks of answers into it
        self.session_over = False
        self.refused = 0  # attempts to connect since `session_over` was set
        self.socket_in_use: socket.socket | TlsSocket | None = None
        self.server = ""  # the server of the last attempt to connect
        self.pending = ""  # why the attempt in progress gives no session, if it ends here
        self._outcome = ""  # why the last completed attempt gave no session

    @property
    def running(self) -> bool:
        """Always True: otherwise kazoo would run callbacks in its own thread."""
        return True

    def start(self) -> None:
        """Do nothing: there are no worker threads."""

    def stop(self) -> None:
        """Do nothing: there are no worker threads."""

    def put(self, callback: Callable[[], None]) -> None:
        """Run the callback of an answer on the loop."""
        self.post(callback)

    def dispatch_callback(self, callback: Callback) -> None:
        """Run a watch's callback on the loop."""
        self.post(callback.func, *callback.args)

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function on the loop, from any thread; do nothing if the loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect to one server. The timeout is the session timeout divided by the number of servers, as in Kafka."""
        if self.session_over:
            self.refused += 1
            raise OSError("the session is over")
        host, port = (args[0] if args else options["address"])[:2]
        name = options.get("hostname") or host
        self.server = f"{name}:{port}" if name == host else f"{name}:{port} ({host})"
        if self.pending:
            self.failed(self.pending)
        options["timeout"] = self._connect_timeout_s
        try:
            plain: socket.socket = super().create_connection(*args, **options)
            self.socket_in_use = plain
            if self._tls is not None:
                secured = TlsSocket(plain, _context(plain, self._tls), name, self._note)
                self.socket_in_use = secured
                secured.handshake(self._connect_timeout_s)
        except OSError as error:
            self._note(error)
            raise
        self.pending = f"{self.server} accepts connections but opens no session ({self._question})"
        return self.socket_in_use

    @property
    def _question(self) -> str:
        question = "is a majority of the servers running?"
        return question if self._tls is not None else f"{question} does this port expect TLS?"

    @property
    def why(self) -> str:
        """Why there is no session: the result of the last completed attempt, or else what the first has shown yet."""
        return self._outcome or self.pending

    def failed(self, why: str) -> None:
        """Note the end of an attempt that gave no session."""
        self._outcome, self.pending = why, ""

    def _note(self, error: OSError) -> None:
        why = error.strerror or str(error) if self._tls is None else reason(error)
        self.failed(f"{self.server}: {why}")

    def select(
        self, readers: list[Any], writers: list[Any], others: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until one of the sockets is ready. A TLS connection is ready to be read when it has decrypted data."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            filled = [one for one in readers if isinstance(one, TlsSocket) and one.fill()]
            left_s = 0.0 if filled else None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            ready, writable, broken = super().select(readers, writers, others, left_s)
            readable = [one for one in readers if one in filled or (one in ready and _has_data(one))]
            if readable or writable or broken or left_s == 0.0:
                return readable, writable, broken


def _context(plain: socket.socket, tls: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return the context for a connection. Raises OSError, after which kazoo tries again; the socket is closed then."""
    try:
        return tls()
    except ZooKeeperSettingError as error:
        plain.close()
        raise OSError(str(error)) from None


def _has_data(one: Any) -> bool:
    return one.fill() if isinstance(one, TlsSocket) else True


class ZooKeeperSession:
    """A session from its first connection to its end."""

    def __init__(
        self,
        address: ZooKeeperAddress,
        timeout_ms: int,
        on_state: Callable[[ZooKeeperSession, ConnectionState], None],
        credentials: tuple[int, bytes] | None = None,
        security: ZooKeeperSecurity = UNSECURED,
    ) -> None:
        """on_state: called on the loop after each change. credentials: those of an existing session to take over."""
        self._address = address
        self._on_state = on_state
        self._login = security.login
        self._refusal = ""  # why the servers have refused the login
        loop = asyncio.get_running_loop()
        self._handler = LoopHandler(loop, timeout_ms / 1000 / len(address.servers), security.tls)
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
        self._extend_connect()
        # Id and password, with which another client can take the session over or end it.
        self.credentials: tuple[int, bytes] = (0, b"")
        self._connected: asyncio.Future[None] = loop.create_future()  # done after the first connection
        self._stopped: asyncio.Future[None] | None = None  # set when the stop of the client has begun

    @property
    def server(self) -> str:
        """The server of the current or last connection."""
        return self._handler.server

    @property
    def timeout_ms(self) -> int:
        """The session timeout: the one that the servers granted, once connected."""
        return self._timeout_ms

    def _extend_connect(self) -> None:
        """Wrap kazoo's connect: to learn the session timeout, which the servers limit (kazoo's read timeout is two
        thirds of it), and to count as connected after the login only.
        """
        connection = self.client._connection
        connect = connection._connect

        def connect_and_note(*args: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*args)
            self._timeout_ms = round(read_timeout_ms * 3 / 2)
            self._handler.post(self._tell, ConnectionState.CONNECTED)
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_note
        if self._login is not None:
            connection.sasl_options = {}  # without them, kazoo does not log in
            connection._authenticate_with_sasl = self._log_in

    def _log_in(self, host: str, timeout_s: float) -> None:
        """Log in, in kazoo's thread. kazoo ends the session after an AuthFailedError."""
        assert self._login is not None
        self._handler.pending = f"{self._handler.server} closes the connection during the login"
        try:
            log_in(self.client._connection, self._login, host, timeout_s)
        except LoginPostponed as error:
            self._handler.failed(f"{self._handler.server}: {error}")
            raise ConnectionDropped(str(error)) from None  # kazoo tries again
        except LoginRefused as error:
            self._refusal = f"{self._handler.server}: {error}"
            raise AuthFailedError(self._refusal) from None

    async def open(self, timeout_ms: int) -> None:
        """Connect for the first time. If the session to take over has ended, a new one is opened.

        Raises ConnectionLossError, which names the servers and the cause, if none answers in time; RegistryLoginError
        if one refuses the login; RegistryClosedError if `close` is called meanwhile.
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
        """End the session, if the servers can be reached, and stop kazoo's thread. Idempotent.

        Waits 5 seconds at most: a session that cannot be ended expires later. With `wait=False`, only the thread is
        stopped.
        """
        if not self._connected.done():
            self._connected.set_exception(RegistryClosedError("the registry has been closed"))
            self._connected.exception()  # mark it as retrieved: there may be no waiter
        if not wait:
            self._disconnect()
        if self._stopped is None:
            self._stopped = self._stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.shield(self._stopped)
        self._disconnect()

    def _stop(self) -> asyncio.Future[None]:
        """Stop the client in a new thread, since the stop waits for kazoo's thread."""
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
        """Interrupt kazoo's thread by closing its connection, and refuse further connections."""
        self._handler.session_over = True
        connection = self._handler.socket_in_use
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _state_changed(self, state: str) -> None:
        """Handle a change of state, in kazoo's thread."""
        if state == KazooState.LOST:
            self._handler.session_over = True
        elif state == KazooState.CONNECTED:  # told by `_extend_connect`, after the login
            self.credentials = self.client.client_id
            return
        self._handler.post(self._tell, _STATES[state])

    def _tell(self, state: ConnectionState) -> None:
        if self._refusal and not self._connected.done():
            what = f"ZooKeeper at {self._address} refuses the login"
            self._connected.set_exception(RegistryLoginError(f"{what}: {self._refusal}"))
            return
        if state is ConnectionState.SUSPENDED and not self._connected.done():
            return  # kazoo had a connection, but it broke during the login
        if self._refusal:
            logger.error("ZooKeeper refuses the login: %s", self._refusal)
        _finish(self._connected)
        self._on_state(self, state)

    async def _why(self) -> str:
        """Return why there is no connection yet."""
        handler = self._handler
        if handler.why:
            return handler.why
        if handler.server:
            return f"{handler.server} does not answer"
        loop = asyncio.get_running_loop()
        for host, port in self._address.servers:
            try:
                await loop.getaddrinfo(host, port)
            except OSError as error:
                return f"{host}: {error.strerror or error}"
        return "no server was reached"


async def end_session(
    address: ZooKeeperAddress,
    credentials: tuple[int, bytes],
    timeout_ms: int,
    security: ZooKeeperSecurity = UNSECURED,
) -> bool:
    """End the session of another client and delete its ephemeral nodes; return whether the session still existed.

    The servers close the connection of the session's owner; when the owner reconnects, its session has expired. If the
    owner reconnects before the session has ended, it takes the session back: then it is taken over again. So the end is
    known when the servers do not know the session any more. Raises ConnectionLossError, also after `timeout_ms` in
    which the owner took the session back every time.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1000
    was_there = False
    while await _end_if_there(address, credentials, timeout_ms, security):
        was_there = True
        if loop.time() > deadline_s:
            raise ConnectionLossError(f"session {credentials[0]:#x} did not end within {timeout_ms} ms: it is in use")
    return was_there


async def _end_if_there(
    address: ZooKeeperAddress, credentials: tuple[int, bytes], timeout_ms: int, security: ZooKeeperSecurity
) -> bool:
    """Ask for the end of a session; return whether the session existed."""
    session = ZooKeeperSession(address, timeout_ms, lambda _session, _state: None, credentials, security)
    await session.open(timeout_ms)
    was_there = session.credentials == credentials
    await session.close()
    return was_there


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

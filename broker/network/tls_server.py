"""The listening sockets of a TLS listener, and handshakes.

asyncio's own server tells nobody about a connection before its handshake is complete, so peers that stall would be in
no limit. Here a connection counts in the limits from the moment it is accepted (`Handshake` is what the limits see),
and its place is taken by a `TlsConnection` when the handshake is complete.

TLS itself is the event loop's, because uvloop's costs less. Its state (256 KiB for asyncio's) is allocated only when
the first record of the client has arrived whole: until then a peer that stalls costs a socket and a task, and the data
stays in the kernel. A handshake that is not complete in time is closed. The number of those that have state is limited:
one more closes the oldest one, which has had the most time, so that peers that stall later use up no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.network.connection import CLOSE_LINGER_S
from broker.network.handshake_failures import HandshakeFailures, NotTlsError
from broker.network.limited_lines import LimitedLines
from broker.network.limits import Holdable
from broker.network.listener_tls import ListenerTls
from client.wire.listening import listening_sockets
from security.tls.alerts import send_alert

logger = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 1.0
"""How long no connection is accepted when the process has no free descriptor."""
MAX_HANDSHAKES_WITH_STATE = 512
"""Of one listener. A stalled one was measured at 63 KiB with uvloop, and at 320 KiB with asyncio's own loop."""
_RECORD_HEAD_BYTES = 5
_MAX_RECORD_BYTES = 16 * 1024
_HANDSHAKE_RECORD = 22
_INTERNAL_ERROR = bytes.fromhex("15030300020250")
"""The alert that Kafka answers plain text with."""


class TlsAcceptor(Protocol):
    """What takes the connections over when their handshakes are complete: a listener, or the console."""

    @property
    def name(self) -> str:
        """For the log."""

    @property
    def handshake_timeout_s(self) -> float:
        """How long a handshake may take."""

    @property
    def now_s(self) -> Callable[[], float]:
        """The clock of the event loop."""

    @property
    def call_soon(self) -> Callable[..., Any]:
        """That of the event loop."""

    def counted(self, peer: Holdable) -> None:
        """Count a connection that was accepted in the limits, which may hold or close it."""

    def uncounted(self, peer: Holdable) -> None:
        """Remove a closed connection from the limits."""

    def tls_connection(self, tls: ListenerTls, on_complete: Callable[[], None]) -> asyncio.BaseProtocol:
        """Return the protocol of a connection. on_complete: to be called when the handshake is complete."""


class TlsServer:
    """Accepts connections on listening sockets and runs their handshakes."""

    def __init__(self, acceptor: TlsAcceptor, tls: ListenerTls, sockets: Sequence[socket.socket], backlog: int) -> None:
        self.acceptor = acceptor
        self.tls = tls
        self.handshakes: dict[Handshake, None] = {}
        self.with_state: dict[Handshake, None] = {}
        """Those whose TLS state is allocated, the oldest first."""
        self.failures = HandshakeFailures(acceptor.name, acceptor.now_s)
        self.closed_lines = LimitedLines(
            logger, acceptor.now_s, lambda number: f"closed {number} more connections on listener {acceptor.name}"
        )
        """Of the connections that a limit has closed."""
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._backlog = backlog
        self._timer: asyncio.TimerHandle | None = None
        self._port: int = sockets[0].getsockname()[1]
        self._accept_all()

    @classmethod
    async def open(cls, acceptor: TlsAcceptor, tls: ListenerTls, host: str, port: int, backlog: int) -> TlsServer:
        """Listen on `host:port`; see `Network.listen`. Raises OSError."""
        return cls(acceptor, tls, await listening_sockets(host, port, backlog), backlog)

    @property
    def port(self) -> int:
        """The bound port."""
        return self._port

    def close(self) -> None:
        """Stop accepting connections, and end all handshakes."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets = ()
        for handshake in list(self.handshakes):
            handshake.abort()

    async def wait_closed(self) -> None:
        """Wait until the tasks of the handshakes have ended."""
        tasks = [handshake.task for handshake in self.handshakes if handshake.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def make_room(self) -> None:
        """Close the oldest handshakes that have TLS state, until one more may have it."""
        while len(self.with_state) >= MAX_HANDSHAKES_WITH_STATE:
            oldest = next(iter(self.with_state))
            del self.with_state[oldest]
            oldest.close(f"more than {MAX_HANDSHAKES_WITH_STATE} TLS handshakes, of which it is the oldest")

    def _accept_all(self) -> None:
        self._timer = None
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._backlog):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            accepted.setblocking(False)
            Handshake(self, accepted, str(address[0]), int(address[1])).start()

    def _pause(self, error: OSError) -> None:
        logger.error("listener %s accepts no connection for a moment: %s", self.acceptor.name, error.strerror)
        for one in self._sockets:
            self._loop.remove_reader(one)
        if self._timer is None:
            self._timer = self._loop.call_later(ACCEPT_AGAIN_S, self._accept_all)


class Handshake:
    """A connection that is accepted, and whose handshake is not complete. The limits may hold or close it."""

    def __init__(self, server: TlsServer, accepted: socket.socket, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.closed = False
        self.task: asyncio.Task[None] | None = None
        self._server = server
        self._socket = accepted
        self._is_held = False
        self._is_handed_over = False  # the event loop owns the socket

    def start(self) -> None:
        """Count the connection; begin the handshake unless a limit holds or closes it."""
        self._server.handshakes[self] = None
        self._server.acceptor.counted(self)
        self._server.acceptor.call_soon(self._begin)

    def hold(self) -> None:
        """Do not begin before `admit`."""
        self._is_held = True

    def admit(self) -> None:
        """Begin the handshake of a held connection."""
        self._is_held = False
        self._server.acceptor.call_soon(self._begin)  # not directly: another limit may hold it within this call

    def close(self, reason: str) -> None:
        """Close the connection and log the reason."""
        text = "closing connection from %s:%d on listener %s: %s"
        self._server.closed_lines.add(text, self.host, self.port, self._server.acceptor.name, reason)
        self.abort()

    def abort(self) -> None:
        """Close the connection."""
        if self.closed:
            return
        self.closed = True
        if self.task is not None:
            self.task.cancel()
        else:
            self._server.acceptor.call_soon(self._end)  # not directly: the limits are still counting it

    def _begin(self) -> None:
        if self.task is None and not self._is_held and not self.closed:
            self.task = asyncio.get_running_loop().create_task(self._run())
            self.task.add_done_callback(self._task_ended)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        acceptor, tls = self._server.acceptor, self._server.tls
        deadline_s = loop.time() + acceptor.handshake_timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._first_record()
            self._server.make_room()
            self._server.with_state[self] = None
            self._is_handed_over = True
            send_alert.set(self._send_last)
            await loop.connect_accepted_socket(
                lambda: acceptor.tls_connection(tls, self._complete),
                self._socket,
                ssl=tls.context,
                ssl_handshake_timeout=max(deadline_s - loop.time(), 0.001),
                ssl_shutdown_timeout=CLOSE_LINGER_S,
            )
        except Exception as error:
            self._fail(error)

    def _complete(self) -> None:
        """Leave the place in the limits to the connection."""
        self._server.handshakes.pop(self, None)
        self._server.with_state.pop(self, None)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self.task = None  # its context refers to this object
        if self in self._server.handshakes:
            self._end()
        self.closed = True  # or complete: there is nothing left to close

    def _fail(self, error: Exception) -> None:
        if isinstance(error, NotTlsError):
            with contextlib.suppress(OSError):  # what is not read would reset the connection before the alert arrives
                self._socket.recv(_MAX_RECORD_BYTES)
            self._send_last(_INTERNAL_ERROR)
        self._server.failures.add(self.host, self.port, error)

    def _send_last(self, data: bytes) -> None:
        """Write an alert, if the socket takes it: the connection is about to be closed."""
        with contextlib.suppress(OSError):
            self._socket.send(data)

    def _end(self) -> None:
        self.closed = True
        if not self._is_handed_over:  # else the event loop closes it
            self._socket.close()
        del self._server.handshakes[self]
        self._server.with_state.pop(self, None)
        self._server.acceptor.uncounted(self)

    # -- the first record --------------------------------------------------------------------------------------------

    async def _first_record(self) -> None:
        """Wait until the first record has arrived whole, and leave it in the kernel. Raises NotTlsError, OSError."""
        head = await self._peek(_RECORD_HEAD_BYTES)
        if not head:
            raise ConnectionResetError
        if head[0] != _HANDSHAKE_RECORD:
            raise NotTlsError
        size = int.from_bytes(head[3:5])
        if len(head) == _RECORD_HEAD_BYTES and size <= _MAX_RECORD_BYTES:  # else OpenSSL refuses it
            await self._peek(_RECORD_HEAD_BYTES + size)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _peek(self, size: int) -> bytes:
        """Return the first `size` bytes when they have arrived; fewer at the end of the stream."""
        with contextlib.suppress(BlockingIOError):
            data = self._socket.recv(size, socket.MSG_PEEK)
            if len(data) in (0, size):
                return data
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self._socket, _resolve, readable)
        try:
            await readable
        finally:
            loop.remove_reader(self._socket)
        return self._socket.recv(size, socket.MSG_PEEK)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

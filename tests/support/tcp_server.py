"""A TCP server for tests: it knows every connection from the moment it is accepted, and leaves none open."""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable

from ottla.cluster.ports import free_ports

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TcpServer:
    """Runs `serve` in a task for each connection, and closes the connection when it returns.

    asyncio's own server is not used: between accepting a connection and the first step of its coroutine it takes a few
    turns of the event loop, and a loop that ends in one of them leaves a connection that nobody closes.
    """

    def __init__(
        self, serve: Serve, *, host: str = "127.0.0.1", port: int | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._serve = serve
        self._host = host
        self.port = free_ports(1)[0] if port is None else port  # one that is still free after `stop_listening`
        self._tls = tls
        self._listening: socket.socket | None = None
        # None until the connection has its streams.
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter | None] = {}

    @property
    def open_connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    async def listen(self) -> None:
        """Accept connections, also once more after `stop_listening`."""
        if self._listening is None:
            self._listening = socket.create_server((self._host, self.port), backlog=100)
            self._listening.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    def stop_listening(self) -> None:
        """Refuse new connections; those that are open stay."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    def drop(self) -> None:
        """Close every connection; new ones are accepted."""
        for task, writer in self._connections.items():
            if writer is None:
                task.cancel()
            else:
                writer.transport.abort()

    async def close(self) -> None:
        """Stop listening, close every connection, and wait until all of it is done."""
        self.stop_listening()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection.setblocking(False)
        task = asyncio.create_task(self._run(connection))
        self._connections[task] = None
        task.add_done_callback(functools.partial(self._ended, connection))

    async def _run(self, connection: socket.socket) -> None:
        try:
            reader, writer = await self._streams(connection)
        except OSError:
            if self._tls is None:
                raise
            return  # the handshake has failed
        self._connections[asyncio.current_task()] = writer
        try:
            await self._serve(reader, writer)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _streams(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _ended(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        connection.close()  # it is still open if the task was cancelled before its first step
        error = None if task.cancelled() else task.exception()
        if error is not None:
            context = {"message": "a connection's task has failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)

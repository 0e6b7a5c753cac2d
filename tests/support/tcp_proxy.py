"""A TCP proxy whose link can be cut, stalled and healed: for what a network does to a connection."""

import asyncio
import contextlib


class TcpProxy:
    """Listens on `host`:`port` and forwards to `target`, a (host, port) that may be changed.

    `async with TcpProxy(...) as proxy`, or `start` and `close`.
    """

    def __init__(self, target_host, target_port, *, host="127.0.0.1", port=0):
        self.target = target_host, target_port
        self.host = host
        self.port = port
        self.accepted = 0
        self._server = None
        self._connections = set()  # tasks
        self._writers = set()
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self._flow()

    async def __aenter__(self):
        return await self.start()

    async def __aexit__(self, *_):
        await self.close()

    async def start(self):
        self._server = await asyncio.start_server(self._accept, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self):
        """Close every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
        self.drop()

    def drop(self):
        """Close every connection; new ones are taken, and what was stalled is lost."""
        for writer in list(self._writers):
            writer.transport.abort()
        self._flow()

    async def heal(self):
        """Take connections again after `cut`, and forward again after `stall`."""
        self._flow()
        if not self._server.is_serving():
            await self.start()

    def stall(self, *, answers_only=False):
        """Keep all connections, and take new ones, but forward nothing, or no answers."""
        self._answers_flow.clear()
        if not answers_only:
            self._requests_flow.clear()

    async def close(self):
        """Stop listening, close every connection, and wait until all of it is done."""
        self.cut()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _flow(self):
        self._requests_flow.set()
        self._answers_flow.set()

    def _accept(self, reader, writer):
        # Not a coroutine: asyncio reports the end of a callback that is one, and was cancelled, with a traceback.
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader, writer):
        self.accepted += 1
        async with self._closing(writer):
            try:
                from_there, there = await asyncio.open_connection(*self.target)
            except OSError:
                return  # the target is down: so is this connection
            async with self._closing(there), asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, there, self._requests_flow))
                pumps.create_task(self._pump(from_there, writer, self._answers_flow))

    @contextlib.asynccontextmanager
    async def _closing(self, writer):
        """A connection that `drop` closes, and the end of the block."""
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _pump(self, reader, writer, flow):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await flow.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

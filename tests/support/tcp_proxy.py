"""A TCP proxy whose link can be cut, stalled and healed: for what a network does to a connection."""

import asyncio
import contextlib

from support.tcp_server import TcpServer


class TcpProxy:
    """Listens on `host`:`port` and forwards to `target`, a (host, port) that may be changed.

    `async with TcpProxy(...) as proxy`, or `start` and `close`.
    """

    def __init__(self, target_host, target_port, *, host="127.0.0.1", port=None):
        self.target = target_host, target_port
        self.accepted = 0
        self._server = TcpServer(self._serve, host=host, port=port)
        self._to_target = set()
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self._flow()

    @property
    def port(self):
        return self._server.port

    async def __aenter__(self):
        return await self.start()

    async def __aexit__(self, *_):
        await self.close()

    async def start(self):
        await self._server.listen()
        return self

    def cut(self):
        """Close every connection and refuse new ones."""
        self._server.stop_listening()
        self.drop()

    def drop(self):
        """Close every connection; new ones are taken, and what was stalled is lost."""
        self._server.drop()
        for writer in self._to_target:
            writer.transport.abort()
        self._flow()

    async def heal(self):
        """Take connections again after `cut`, and forward again after `stall`."""
        self._flow()
        await self._server.listen()

    def stall(self, *, answers_only=False):
        """Keep all connections, and take new ones, but forward nothing, or no answers."""
        self._answers_flow.clear()
        if not answers_only:
            self._requests_flow.clear()

    async def close(self):
        """Stop listening, close every connection, and wait until all of it is done."""
        await self._server.close()

    def _flow(self):
        self._requests_flow.set()
        self._answers_flow.set()

    async def _serve(self, reader, writer):
        self.accepted += 1
        try:
            from_there, there = await asyncio.open_connection(*self.target)
        except OSError:
            return  # the target is down: so is this connection
        self._to_target.add(there)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, there, self._requests_flow))
                pumps.create_task(self._pump(from_there, writer, self._answers_flow))
        finally:
            self._to_target.discard(there)
            there.transport.abort()
            with contextlib.suppress(OSError):
                await there.wait_closed()

    async def _pump(self, reader, writer, flow):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await flow.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

"""A TCP proxy whose link can be cut, stalled and healed: for what a network does to a connection."""

import asyncio
import contextlib


class TcpProxy:
    """Listens on `host`:`port` and forwards to `target`, a (host, port) that may be changed."""

    def __init__(self, target_host, target_port, *, host="127.0.0.1", port=0):
        self.target = target_host, target_port
        self.host = host
        self.port = port
        self.accepted = 0
        self._server = None
        self._connections = set()
        self._writers = set()
        self._requests_flow = asyncio.Event()
        self._answers_flow = asyncio.Event()
        self._flow()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
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
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted closes its socket in the next turn

    def _flow(self):
        self._requests_flow.set()
        self._answers_flow.set()

    async def _serve(self, reader, writer):
        self.accepted += 1
        task = asyncio.current_task()
        self._connections.add(task)
        self._writers.add(writer)
        there = None
        try:
            from_there, there = await asyncio.open_connection(*self.target)
            self._writers.add(there)
            await asyncio.gather(
                self._pump(reader, there, self._requests_flow), self._pump(from_there, writer, self._answers_flow)
            )
        except OSError:
            pass  # the target is down: so is this connection
        finally:
            for one in (writer, there):
                if one is not None:
                    one.transport.abort()
                    self._writers.discard(one)
            self._connections.discard(task)

    async def _pump(self, reader, writer, flow):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await flow.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

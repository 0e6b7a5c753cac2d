"""A listener over a real socket, and a client that reads only on request."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct

from broker.network.acceptor import Acceptor
from broker.network.limits import ConnectionQuota, MemoryBudget
from client.wire.network import AsyncioNetwork
from support.connections import echo
from support.heap import instances
from support.polling import until

MIB = 1 << 20
NARROW = 65536  # so that the system takes little of what a client does not read


@contextlib.asynccontextmanager
async def listening(handle=echo, *, is_running=True, quota=None, budget=None, max_idle_s=600.0, **options):
    loop = asyncio.get_running_loop()
    acceptor = Acceptor(
        "PLAINTEXT",
        handle_frame=lambda frame, connection: handle(frame),
        quota=quota or ConnectionQuota(now_s=loop.time, call_later=loop.call_later),
        budget=budget or MemoryBudget(),
        run_later=loop.create_task,
        max_request_bytes=100 * MIB,
        max_idle_s=max_idle_s,
        send_buffer_bytes=NARROW,
        **options,
    )
    await acceptor.bind(AsyncioNetwork(), "127.0.0.1", 0)
    running = loop.create_task(acceptor.run()) if is_running else None
    try:
        yield acceptor
    finally:
        if running is not None:
            running.cancel()
        await acceptor.close()
        await until(lambda: not acceptor.connections, "all connections are gone")
        assert acceptor.budget.receive_bytes == 0
        assert acceptor.budget.unsent_bytes == 0


@contextlib.contextmanager
def without_garbage_collector():
    """What only the garbage collector would free stays. It rarely looks at what has lived for long."""
    gc.collect()  # what others have left
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def left_to_garbage_collector(kind):
    """How many objects of a kind are unreachable and were not freed."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return sum(1 for _ in instances(kind, gc.garbage))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


class Client:
    """A socket that reads only on request."""

    def __init__(self, acceptor, receive_buffer=None):
        self.loop = asyncio.get_running_loop()
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.port = acceptor.port

    async def __aenter__(self):
        await self.loop.sock_connect(self.socket, ("127.0.0.1", self.port))
        return self

    async def __aexit__(self, *_):
        self.socket.close()

    async def send(self, data):
        await self.loop.sock_sendall(self.socket, data)

    async def answer(self):
        (size,) = struct.unpack(">i", await self.exactly(4))
        return await self.exactly(size)

    async def exactly(self, size):
        data = b""
        while len(data) < size:
            piece = await self.loop.sock_recv(self.socket, min(size - len(data), MIB))
            if not piece:
                raise EOFError(data)
            data += piece
        return data

    async def rest(self):
        """Everything up to the end of the stream."""
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := await self.loop.sock_recv(self.socket, MIB):
                data += piece
        return data

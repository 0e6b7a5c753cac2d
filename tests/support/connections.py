"""Test doubles around a server's Connection: a transport in memory, an acceptor without a socket, and handlers."""

from __future__ import annotations

import asyncio
import struct

from broker.network.connection import CloseConnectionError, Connection
from broker.network.limits import MemoryBudget

HIGH_WATER_BYTES = 64 * 1024


def framed(body):
    """A frame: its size, and the bytes."""
    return struct.pack(">i", len(body)) + bytes(body)


class Lazy:
    """A record range: bytes that are read when they are sent. If `cold`, they are not in the page cache."""

    def __init__(self, data, cold=False):
        self.data = data
        self.cold = cold
        self.reads = []

    def __len__(self):
        return len(self.data)

    def read(self, position, size):
        self.reads.append((position, size))
        return self.data[position : position + size]

    def read_now(self, position, size):
        return None if self.cold else self.read(position, size)

    async def read_later(self, position, size):
        return self.read(position, size)

    def to_bytes(self):
        return self.data


class Pending:
    """An answer that a test completes later."""

    def __init__(self):
        self.callback = None
        self.outcome = None
        self.abandoned = False

    def on_ready(self, callback):
        self.callback = callback

    def answer(self, outcome):
        self.outcome = outcome
        self.callback()

    def result(self):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def abandon(self):
        self.abandoned = True


class FakeTransport:
    """Collects what is written; `room` is how much the client takes before it stalls (None: everything)."""

    def __init__(self, connection):
        self.connection = connection
        self.written = []
        self.unsent = bytearray()
        self.sent = bytearray()
        self.room = None
        self.reading = True
        self.closing = False
        self.aborted = False
        self.paused_writing = False

    def get_extra_info(self, name):
        return ("10.0.0.1", 5000) if name == "peername" else None

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        assert not self.closing
        self.reading = False

    def resume_reading(self):
        assert not self.closing
        self.reading = True

    def get_write_buffer_size(self):
        return len(self.unsent)

    def write(self, data):
        assert not self.closing
        self.written.append(bytes(data))
        self.unsent += data
        self._send()
        if len(self.unsent) > HIGH_WATER_BYTES and not self.paused_writing:
            self.paused_writing = True
            self.connection.pause_writing()

    def take(self, size=None):
        """The client reads `size` more bytes (None: without a limit)."""
        self.room = None if size is None else (self.room or 0) + size
        self._send()
        if self.paused_writing and len(self.unsent) <= HIGH_WATER_BYTES // 4:
            self.paused_writing = False
            self.connection.resume_writing()

    def _send(self):
        size = len(self.unsent) if self.room is None else min(self.room, len(self.unsent))
        self.sent += self.unsent[:size]
        del self.unsent[:size]
        if self.room is not None:
            self.room -= size

    def close(self):
        self.closing = True

    def abort(self):
        self.closing = self.aborted = True


class FakeLoop:
    """The part of an event loop that a future needs."""

    def __init__(self):
        self.ready = []

    def call_soon(self, callback, *arguments, context=None):
        self.ready.append((callback, arguments))

    def get_debug(self):
        return False

    def call_exception_handler(self, context):
        raise AssertionError(context)

    def run_ready(self):
        ready, self.ready = self.ready, []
        for callback, arguments in ready:
            callback(*arguments)


class FakeAcceptor:
    """An acceptor without a socket, whose clock stands still. `handle` gets each frame's bytes and the connection."""

    name = "PLAINTEXT"

    def __init__(self, handle, *, budget=None, max_request_bytes=1 << 20):
        self.handle = handle
        self.budget = budget or MemoryBudget()
        self.max_request_bytes = max_request_bytes
        self.frames = []
        self.connections = set()
        self.timers = []
        self.time_s = 100.0
        self.readings = []
        self.loop = FakeLoop()

    def now_s(self):
        return self.time_s

    def call_later(self, delay_s, work):
        self.timers.append((delay_s, work))
        return self

    def call_soon(self, work):
        work()

    def cancel(self):
        pass

    def run_later(self, work):
        """A read off the event loop: done when the test calls `read_from_disk`."""
        reading = asyncio.Future(loop=self.loop)
        self.readings.append((reading, work))
        return reading

    def read_from_disk(self):
        """Finish the requested reads."""
        readings, self.readings = self.readings, []
        for reading, work in readings:
            try:
                work.send(None)
            except StopIteration as done:
                reading.set_result(done.value)
            except Exception as error:
                reading.set_exception(error)
        self.loop.run_ready()
        return len(readings)

    def handle_frame(self, frame, connection):
        self.frames.append(bytes(frame))
        return self.handle(frame)

    def connected(self, connection):
        self.connections.add(connection)

    def disconnected(self, connection):
        self.connections.discard(connection)


class Line:
    """A client and its connection over a fake transport: what is fed waits while the connection does not read."""

    def __init__(self, acceptor):
        self.acceptor = acceptor
        self.connection = Connection(acceptor)
        self.transport = FakeTransport(self.connection)
        self.unread = bytearray()
        self.lost = False
        self.connection.connection_made(self.transport)

    def feed(self, data=b"", at_most=None):
        """Send bytes; the connection reads as much of them as it wants, in pieces of `at_most`."""
        self.unread += data
        while self.unread and self.transport.reading and not self.transport.closing:
            space = self.connection.get_buffer(-1)
            assert len(space) > 0, "asked for bytes without room for them"
            size = min(len(space), len(self.unread), at_most or 1 << 30)
            space[:size] = self.unread[:size]
            del self.unread[:size]
            self.connection.buffer_updated(size)

    def lose(self, error=None):
        self.lost = True
        self.connection.connection_lost(error)

    @property
    def capacity(self):
        return len(self.connection._buffer)

    @property
    def answers(self):
        """The bodies of the answers that have been sent."""
        data, bodies = bytes(self.transport.sent), []
        while data:
            (size,) = struct.unpack_from(">i", data)
            assert len(data) >= 4 + size, "a part of an answer"
            bodies.append(data[4 : 4 + size])
            data = data[4 + size :]
        return bodies


def echo(frame):
    """Answer with the frame itself."""
    return [framed(frame)]


def refuse(frame):
    """Close on every frame."""
    raise CloseConnectionError("refused")

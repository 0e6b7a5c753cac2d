"""A client of ZooKeeper's protocol, byte by byte, and a clock for the sessions of the registry's server."""

import asyncio
import contextlib
import heapq
import itertools
import struct
from typing import NamedTuple

from registry.server import jute
from registry.server.codes import OpCode
from registry.server.jute import JuteReader
from support.deadlines import DEADLINE_S

OPEN = jute.int32(1) + jute.int32(31) + jute.string("world") + jute.string("anyone")


class ManualClock:
    """A clock whose time passes when a test says so."""

    def __init__(self):
        self.now_s = 0.0
        self._timers = []
        self._numbers = itertools.count()

    def time(self):
        return self.now_s

    def call_later(self, delay, callback):
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.now_s + delay, next(self._numbers), timer))
        return timer

    def stall(self, seconds):
        """Let time pass in which the process does not run: what is due is called afterwards."""
        self.now_s += seconds
        self.advance(0)

    def advance(self, seconds):
        """Let time pass, and call what is due."""
        end = self.now_s + seconds
        while self._timers and self._timers[0][0] <= end:
            due_s, _, timer = heapq.heappop(self._timers)
            self.now_s = max(self.now_s, due_s)
            if not timer.cancelled:
                timer.callback()
        self.now_s = end


class _Timer:
    def __init__(self, callback):
        self.callback = callback
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class Reply(NamedTuple):
    xid: int
    error: int
    body: JuteReader


class RawClient:
    """One connection. Requests can be sent without waiting for answers."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.session_id = 0
        self.password = b""
        self.timeout_ms = 0
        self._xids = itertools.count(1)

    async def connect(self, *, timeout_ms=10_000, session_id=0, password=bytes(16), seen_zxid=0):
        """Open a session or go on with one; `session_id` is 0 if it is refused."""
        self.send_connect(timeout_ms, session_id, password, seen_zxid)
        response = JuteReader(await self.frame())
        response.int32()
        self.timeout_ms, self.session_id, self.password = response.int32(), response.int64(), response.buffer()
        return self

    def send_connect(self, timeout_ms=10_000, session_id=0, password=bytes(16), seen_zxid=0):
        """Send the first frame of a connection."""
        fields = jute.int32(0) + jute.int64(seen_zxid) + jute.int32(timeout_ms) + jute.int64(session_id)
        self.send_frame(fields + jute.buffer(password) + jute.boolean(False))

    def send_frame(self, frame):
        self.writer.write(jute.int32(len(frame)) + frame)

    def send(self, opcode, body=b"", xid=None):
        """Send a request; return its number."""
        xid = next(self._xids) if xid is None else xid
        self.send_frame(jute.int32(xid) + jute.int32(opcode) + body)
        return xid

    async def frame(self):
        async with asyncio.timeout(DEADLINE_S):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(length)

    async def reply(self):
        """Return the next answer or event, whose xid is -1."""
        reader = JuteReader(await self.frame())
        xid = reader.int32()
        reader.int64()
        return Reply(xid, reader.int32(), reader)

    async def event(self):
        """Return the next frame, which must be an event: its type and path."""
        reply = await self.reply()
        assert reply.xid == -1
        kind, state, path = reply.body.int32(), reply.body.int32(), reply.body.string()
        assert state == 3
        return kind, path

    async def ask(self, opcode, body=b""):
        """Send a request and return its answer, which must be the next frame."""
        xid = self.send(opcode, body)
        reply = await self.reply()
        assert reply.xid == xid
        return reply

    async def create(self, path, data=b"", flags=0, acl=OPEN):
        return (await self.ask(OpCode.CREATE, create(path, data, flags, acl))).error

    async def exists(self, path, *, watch=False):
        return (await self.ask(OpCode.EXISTS, read(path, watch=watch))).error == 0

    async def is_closed(self):
        """Whether the server has closed the connection; waits for it."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    async def close(self):
        self.writer.close()
        with contextlib.suppress(ConnectionResetError):
            await self.writer.wait_closed()


def create(path, data=b"", flags=0, acl=OPEN):
    return jute.string(path) + jute.buffer(data) + acl + jute.int32(flags)


def set_data(path, data, version=-1):
    return jute.string(path) + jute.buffer(data) + jute.int32(version)


def delete(path, version=-1):
    return jute.string(path) + jute.int32(version)


def read(path, *, watch=False):
    return jute.string(path) + jute.boolean(watch)

"""The floor of replication: the least that three asyncio processes have to do until a record is on all of them.

A leader is `floor_server` that answers a Produce when both followers have what it appended, and takes the next request
of a connection only then, as Kafka does. A follower asks for what comes after its end, checks and appends it, and asks
again, which tells the leader what it has. No epochs, no in-sync replicas, no sessions, no purgatory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
from pathlib import Path
from typing import cast

from benchmarks.floor_server import ANSWER_HEADER, FRAME_HEADER, INT32, INT64, Connection, Partition, Server, uvloop

FOLLOW = 1000
"""Of our own: an API in which followers ask for records. Follower, offset."""

ASKED = struct.Struct(">iq")
FOLLOWERS = 2


class Leader(Server):
    """One partition, what the followers have of it, and who waits for them."""

    def __init__(self, directory: Path, host: str, port: int) -> None:
        super().__init__(directory, host, port)
        self.log: Partition | None = None
        self.ends = dict.fromkeys(range(FOLLOWERS), 0)
        self.asking: dict[int, LeaderConnection] = {}
        self.producing: list[LeaderConnection] = []

    def partition(self, topic: bytes, number: int) -> Partition:
        self.log = super().partition(topic, number)
        return self.log

    def feed(self) -> None:
        """Send followers that ask what they lack."""
        log = self.log
        for follower, connection in list(self.asking.items()):
            if log is not None and log.next_offset > self.ends[follower]:
                del self.asking[follower]
                position, length = log.range_from(self.ends[follower], 1 << 20)
                connection.answer(follower, os.pread(log.descriptor, length, position))

    def has(self, follower: int, offset: int) -> None:
        """A follower has everything before this."""
        self.ends[follower] = offset
        committed = min(self.ends.values())
        for connection in [one for one in self.producing if one.waits_for <= committed]:
            self.producing.remove(connection)
            connection.committed()


class LeaderConnection(Connection):
    """A client's, or a follower's."""

    server: Leader

    def __init__(self, server: Leader) -> None:
        super().__init__(server)
        self.handlers[FOLLOW] = self.follow
        self.held: tuple[int, bytes] | None = None
        self.unread: list[bytes] = []
        self.waits_for = 0

    def frame(self, frame: memoryview) -> None:
        if self.held is not None:
            self.unread.append(bytes(frame))
        else:
            super().frame(frame)

    def produce(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        self.held = (correlation, b"")
        super().produce(frame, version, correlation, position)
        assert self.server.log is not None
        self.waits_for = self.server.log.next_offset
        self.server.producing.append(self)
        self.server.feed()

    def answer(self, correlation: int, body: bytes) -> None:
        if self.held is not None:
            self.held = (correlation, body)
        else:
            super().answer(correlation, body)

    def committed(self) -> None:
        """Both followers have it: answer, and take the next request."""
        assert self.held is not None
        answer, self.held = self.held, None
        self.answer(*answer)
        if self.unread:
            self.frame(memoryview(bytearray(self.unread.pop(0))))

    def follow(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        follower, offset = ASKED.unpack_from(frame, position)
        self.server.has(follower, offset)
        self.server.asking[follower] = self
        self.server.feed()


class Follower(asyncio.Protocol):
    """Asks, appends, asks again."""

    def __init__(self, number: int, directory: Path) -> None:
        self.number = number
        self.log = Partition(directory / f"follower-{number}.log")
        self.received = bytearray()
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)  # in fact: uvloop's is not derived from it
        self.ask()

    def ask(self) -> None:
        request = FRAME_HEADER.pack(FOLLOW, 0, self.number) + b"\0\0" + ASKED.pack(self.number, self.log.next_offset)
        self.transport.write(INT32.pack(len(request)) + request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        while len(self.received) >= 4:
            size = 4 + INT32.unpack_from(self.received)[0]
            if len(self.received) < size:
                return
            records = self.received[ANSWER_HEADER.size : size]
            del self.received[:size]
            assert INT64.unpack_from(records)[0] == self.log.next_offset
            self.log.append(memoryview(records))
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def lead(options: argparse.Namespace) -> None:
    server = Leader(Path(options.directory), "127.0.0.1", options.port)
    listener = await asyncio.get_running_loop().create_server(
        lambda: LeaderConnection(server), "127.0.0.1", options.port
    )
    async with listener:
        await listener.serve_forever()


async def follow(options: argparse.Namespace) -> None:
    follower = Follower(options.follower, Path(options.directory))
    await asyncio.get_running_loop().create_connection(lambda: follower, "127.0.0.1", options.port)
    await follower.ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor_replication", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="the leader's")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--follower", type=int, help="be this follower, from 0; else the leader")
    options = parser.parse_args()
    work = lead(options) if options.follower is None else follow(options)
    if uvloop is not None:
        uvloop.run(work)
    else:
        asyncio.run(work)


if __name__ == "__main__":
    main()

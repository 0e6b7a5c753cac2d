"""The floor: the least that a server in asyncio Python has to do to take and give Kafka's records.

It speaks just enough of the protocol that librdkafka works with it, parsed by hand and answered from canned
bytes. Produce: read the frame, check the CRC-32C of every batch, set its base offset, one pwrite to the
partition's file, answer. Fetch: find the batch of the offset, pread a range of the file, write it. There is
no log, no index on disk, no validation, no metadata, no purgatory, no error path, no metrics: what a broker
costs above this is what being a broker costs. Same technique as the broker's network layer:
asyncio.BufferedProtocol over one bytearray a connection, uvloop when it is installed. Topics are whatever a
client asks for; `-8p` at the end of a name gives it 8 partitions. With --certificate, connections are TLS, by the
event loop and with Python's defaults.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import ssl
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from pathlib import Path

import crc32c

try:
    import uvloop
except ImportError:
    uvloop = None

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
# Clients take the last version, which is parsed here: the last that is not flexible. librdkafka sends today's
# batches only where Fetch 4 is announced, and compresses with lz4 only where FindCoordinator is.
VERSIONS = {
    PRODUCE: (3, 7),
    FETCH: (4, 11),
    LIST_OFFSETS: (1, 1),
    METADATA: (4, 4),
    FIND_COORDINATOR: (0, 0),
    API_VERSIONS: (0, 3),
}
UNSUPPORTED_VERSION = 35
EARLIEST = -2

FIRST_BUFFER = 256 * 1024
STEP = 256 * 1024  # of a file at a time
ENCRYPTED_STEP = 128 * 1024  # a larger one takes twice the CPU, most of it for fresh memory
FRAME_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
ANSWER_HEADER = struct.Struct(">ii")  # size, correlation id
INT16, INT32, INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
BATCH = struct.Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
BATCH_OVERHEAD = 12
CRC_START = 21
PRODUCED = struct.Struct(">ihqqq")  # partition, error, base offset, append time, log start offset
FETCH_REQUEST = struct.Struct(">iiiibii")  # replica, wait, min bytes, max bytes, isolation, session, epoch
FETCH_PARTITION = struct.Struct(">iiqqi")  # partition, leader epoch, offset, log start offset, max bytes
FETCH_ANSWER = struct.Struct(">ihi")  # throttle, error, session
# partition, error, high watermark, last stable offset, log start offset, aborted, preferred replica, size
FETCHED = struct.Struct(">ihqqqiii")


class Partition:
    """One file, and where in it each batch starts."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self.size = 0
        self.next_offset = 0
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def append(self, records: memoryview) -> int:
        first = self.next_offset
        position = 0
        while position < len(records):
            _, length, _, magic, crc, _, last_delta = BATCH.unpack_from(records, position)
            end = position + BATCH_OVERHEAD + length
            if magic != 2 or crc32c.crc32c(records[position + CRC_START : end]) != crc:
                raise ValueError("corrupt batch")
            INT64.pack_into(records, position, self.next_offset)
            self.offsets.append(self.next_offset)
            self.positions.append(self.size + position)
            self.next_offset += last_delta + 1
            position = end
        os.pwrite(self.descriptor, records, self.size)
        self.size += len(records)
        return first

    def range_from(self, offset: int, most: int) -> tuple[int, int]:
        """(position, length) of the file from the batch that holds `offset`."""
        if offset >= self.next_offset:
            return self.size, 0
        position = self.positions[bisect_right(self.offsets, offset) - 1]
        return position, min(most, self.size - position)


class Server:
    """The partitions and the canned answers."""

    def __init__(self, directory: Path, host: str, port: int) -> None:
        self.directory = directory
        self.host = host
        self.port = port
        self.partitions: dict[tuple[bytes, int], Partition] = {}
        self.api_versions = self._api_versions()

    def partition(self, topic: bytes, number: int) -> Partition:
        found = self.partitions.get((topic, number))
        if found is None:
            found = Partition(self.directory / f"{topic.decode()}-{number}.log")
            self.partitions[topic, number] = found
        return found

    @staticmethod
    def _api_versions() -> bytes:
        keys = b"".join(struct.pack(">hhhb", key, *span, 0) for key, span in sorted(VERSIONS.items()))
        return struct.pack(">hB", 0, len(VERSIONS) + 1) + keys + b"\0\0\0\0\0"

    @staticmethod
    def old_api_versions(error: int) -> bytes:
        keys = b"".join(struct.pack(">hhh", key, *span) for key, span in sorted(VERSIONS.items()))
        return struct.pack(">hi", error, len(VERSIONS)) + keys

    def metadata(self, topics: list[bytes]) -> bytes:
        host = self.host.encode()
        out = [struct.pack(f">iiih{len(host)}sih", 0, 1, 1, len(host), host, self.port, -1)]
        out.append(struct.pack(">h5sii", 5, b"floor", 1, len(topics)))
        for topic in topics:
            suffix = re.search(rb"-(\d+)p$", topic)
            count = int(suffix[1]) if suffix else 1
            out.append(struct.pack(f">hh{len(topic)}sbi", 0, len(topic), topic, 0, count))
            out.extend(struct.pack(">hiiiiii", 0, number, 1, 1, 1, 1, 1) for number in range(count))
        return b"".join(out)


class Connection(asyncio.BufferedProtocol):
    """Frames are handled where they lie in the buffer; what is left moves to its front."""

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = bytearray(FIRST_BUFFER)
        self.view = memoryview(self.buffer)
        self.start = 0
        self.end = 0
        self.paused = False
        self.step = STEP
        # (bytes to send, then a descriptor, a position and a length of the file, 0 for nothing)
        self.waiting: deque[tuple[bytes, int, int, int]] = deque()
        self.handlers: dict[int, Callable[[memoryview, int, int, int], None]] = {
            PRODUCE: self.produce,
            FETCH: self.fetch,
            LIST_OFFSETS: self.list_offsets,
            METADATA: self.metadata,
            API_VERSIONS: self.api_versions,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport
        if transport.get_extra_info("sslcontext") is not None:
            self.step = ENCRYPTED_STEP

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view[self.end :]

    def buffer_updated(self, count: int) -> None:
        self.end += count
        view = self.view
        start, end = self.start, self.end
        needed = 4
        while end - start >= 4:
            needed = 4 + INT32.unpack_from(view, start)[0]
            if end - start < needed:
                break
            self.frame(view[start + 4 : start + needed])
            start += needed
            needed = 4
        if start == end:
            self.start = self.end = 0
            return
        self.start = start
        if len(view) - start < needed:
            self.make_room(needed)

    def make_room(self, needed: int) -> None:
        left = self.end - self.start
        held = bytes(self.view[self.start : self.end])
        if needed > len(self.buffer):
            self.buffer = bytearray(1 << (needed - 1).bit_length())
            self.view = memoryview(self.buffer)
        self.view[:left] = held
        self.start, self.end = 0, left

    def frame(self, frame: memoryview) -> None:
        key, version, correlation = FRAME_HEADER.unpack_from(frame, 0)
        client = INT16.unpack_from(frame, 8)[0]
        self.handlers[key](frame, version, correlation, 10 + max(client, 0))

    def answer(self, correlation: int, body: bytes) -> None:
        self.transport.write(ANSWER_HEADER.pack(len(body) + 4, correlation) + body)

    def api_versions(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        if version == 3:
            self.answer(correlation, self.server.api_versions)
        else:
            self.answer(correlation, self.server.old_api_versions(0 if version == 0 else UNSUPPORTED_VERSION))

    def metadata(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        topics = []
        count = INT32.unpack_from(frame, position)[0]
        position += 4
        for _ in range(count):
            topic, position = string(frame, position)
            topics.append(topic)
        self.answer(correlation, self.server.metadata(topics))

    def list_offsets(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        out = [frame[position + 4 : position + 8].tobytes()]
        topics = INT32.unpack_from(frame, position + 4)[0]
        position += 8
        for _ in range(topics):
            topic, position = string(frame, position)
            count = INT32.unpack_from(frame, position)[0]
            position += 4
            out.append(struct.pack(f">h{len(topic)}si", len(topic), topic, count))
            for _ in range(count):
                number, timestamp = struct.unpack_from(">iq", frame, position)
                position += 12
                end = self.server.partition(topic, number).next_offset
                out.append(struct.pack(">ihqq", number, 0, -1, 0 if timestamp == EARLIEST else end))
        self.answer(correlation, b"".join(out))

    def produce(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        transactional = INT16.unpack_from(frame, position)[0]
        position += 2 + max(transactional, 0)
        acks = INT16.unpack_from(frame, position)[0]
        topics = INT32.unpack_from(frame, position + 6)[0]
        out = [INT32.pack(topics)]
        position += 10
        for _ in range(topics):
            topic, position = string(frame, position)
            count = INT32.unpack_from(frame, position)[0]
            position += 4
            out.append(struct.pack(f">h{len(topic)}si", len(topic), topic, count))
            for _ in range(count):
                number, length = struct.unpack_from(">ii", frame, position)
                position += 8
                records = frame[position : position + length]
                position += length
                base = self.server.partition(topic, number).append(records)
                # Log start offset is there from version 5.
                out.append(PRODUCED.pack(number, 0, base, -1, 0)[: 30 if version >= 5 else 22])
        if acks:
            out.append(b"\0\0\0\0")
            self.answer(correlation, b"".join(out))

    def fetch(self, frame: memoryview, version: int, correlation: int, position: int) -> None:
        _, wait, _, _, _, _, _ = FETCH_REQUEST.unpack_from(frame, position)
        position += FETCH_REQUEST.size
        topics = INT32.unpack_from(frame, position)[0]
        position += 4
        out = [FETCH_ANSWER.pack(0, 0, 0), INT32.pack(topics)]
        ranges: list[tuple[bytes, int, int, int]] = []
        head = size = 0
        for _ in range(topics):
            topic, position = string(frame, position)
            count = INT32.unpack_from(frame, position)[0]
            position += 4
            out.append(struct.pack(f">h{len(topic)}si", len(topic), topic, count))
            for _ in range(count):
                number, _, offset, _, most = FETCH_PARTITION.unpack_from(frame, position)
                position += FETCH_PARTITION.size
                partition = self.server.partition(topic, number)
                at, length = partition.range_from(offset, most)
                end = partition.next_offset
                out.append(FETCHED.pack(number, 0, end, end, 0, 0, -1, length))
                if length:
                    ranges.append((b"".join(out), partition.descriptor, at, length))
                    head += sum(map(len, out))
                    size += length
                    out.clear()
        tail = b"".join(out)
        total = ANSWER_HEADER.pack(4 + head + size + len(tail), correlation)
        if size:
            self.waiting += [(total, 0, 0, 0), *ranges, (tail, 0, 0, 0)]
            self.pump()
        else:
            asyncio.get_running_loop().call_later(wait / 1000, self.send_late, total + tail)

    def send_late(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)

    def pump(self) -> None:
        """Reads no more of the files than the socket takes: memory used again at once stays in the cache."""
        waiting = self.waiting
        while waiting and not self.paused:
            head, descriptor, position, length = waiting.popleft()
            if length > self.step:
                waiting.appendleft((b"", descriptor, position + self.step, length - self.step))
                length = self.step
            if head:
                self.transport.write(head)
            if length:
                self.transport.write(os.pread(descriptor, length, position))

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.clear()


def string(frame: memoryview, position: int) -> tuple[bytes, int]:
    length = INT16.unpack_from(frame, position)[0]
    position += 2
    return bytes(frame[position : position + length]), position + length


async def serve(options: argparse.Namespace) -> None:
    server = Server(Path(options.directory), options.host, options.port)
    loop = asyncio.get_running_loop()
    context = None
    if options.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate)
    listener = await loop.create_server(lambda: Connection(server), options.host, options.port, ssl=context)
    async with listener:
        await listener.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--certificate", help="a file with key and certificate, for TLS")
    options = parser.parse_args()
    if uvloop is not None:
        uvloop.run(serve(options))
    else:
        asyncio.run(serve(options))


if __name__ == "__main__":
    main()

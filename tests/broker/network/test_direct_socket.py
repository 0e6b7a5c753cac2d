"""Record ranges that go from file to socket by sendfile: over real sockets and files, on both event loops."""

import errno
import gc
import os
import random
import socket
import struct
from pathlib import Path

import pytest

from storage.file_system import FileSystem
from storage.log.file_records import FileRecords
from support.connections import framed
from support.listening import MIB, NARROW, Client, listening
from support.loops import on_both_loops
from support.polling import until


class Watched(FileSystem):
    """Counts what is sent and what is read; the test may take sendfile's place."""

    def __init__(self):
        super().__init__()
        self.sent_bytes = 0
        self.read_bytes = 0
        self.instead = None

    def sendfile(self, socket_fd, fd, position, length):
        if self.instead is not None:
            return self.instead(socket_fd, fd, position, length)
        sent = os.sendfile(socket_fd, fd, position, length)
        self.sent_bytes += sent
        return sent

    def pread(self, fd, length, position):
        self.read_bytes += length
        return os.pread(fd, length, position)


class Files:
    """A file of random bytes, and a handler that answers with a range of it between a head and a tail."""

    def __init__(self, tmp_path, size=8 * MIB):
        self.fs = Watched()
        self.data = random.Random(1).randbytes(size)
        self.path = tmp_path / "00000000000000000000.log"
        self.path.write_bytes(self.data)
        self.file = self.fs.open(str(self.path))

    def records(self, position, size):
        return FileRecords(self.fs, self.file, position, size)

    def handle(self, frame):
        """`frame` is position and size of one range or several; anything else is echoed."""
        if len(frame) % 16:
            return [struct.pack(">i", len(frame)), bytes(frame)]
        ranges = [struct.unpack_from(">qq", frame, at) for at in range(0, len(frame), 16)]
        pieces = [piece for one in ranges for piece in (b"<", self.records(*one), b">")]
        return [struct.pack(">i", sum(map(len, pieces))), *pieces]

    def expected(self, *ranges):
        return b"".join(b"<" + self.data[position : position + size] + b">" for position, size in ranges)


def asked(*ranges):
    return framed(b"".join(struct.pack(">qq", *one) for one in ranges))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def open_descriptors():
    gc.collect()  # what earlier tests have left would be closed at some moment in between
    return len(list(Path("/proc/self/fd").iterdir()))


@on_both_loops
async def test_large_ranges_are_sent_without_reading_them(files):
    ranges = [(0, 3 * MIB + 7), (5 * MIB, 100_000), (17, 1)]
    async with listening(files.handle) as acceptor, Client(acceptor) as client:
        await client.send(asked(*ranges))
        assert await client.answer() == files.expected(*ranges)
        # Not sent together with the first: had that filled the socket, `small` would wait in the transport, and what
        # is behind it would go there, too.
        await client.send(framed(b"small") + asked((1, 100_000)))
        assert await client.answer() == b"small"
        assert await client.answer() == files.expected((1, 100_000))
    assert (files.fs.sent_bytes, files.fs.read_bytes) == (3 * MIB + 7 + 100_000 + 1 + 100_000, 0)


@on_both_loops
async def test_a_slow_client_gets_everything_and_uses_no_memory(files):
    async with listening(files.handle) as acceptor, Client(acceptor, NARROW) as client, Client(acceptor) as other:
        descriptors = open_descriptors()
        await client.send(asked((0, 8 * MIB)) + framed(b"after"))
        await until(lambda: open_descriptors() > descriptors, "the answer is on its way")
        await other.send(framed(b"others are served"))
        assert await other.answer() == b"others are served"
        assert acceptor.budget.unsent_bytes == 0
        assert files.fs.sent_bytes < 8 * MIB
        assert await client.answer() == files.expected((0, 8 * MIB))
        assert await client.answer() == b"after"
        assert open_descriptors() <= descriptors


@on_both_loops
async def test_one_answer_does_not_block_other_connections(files):
    """A client that reads as fast as it is sent to would else be served to the end first."""
    turns = []
    files.fs.instead = lambda socket_fd, fd, position, length: (
        turns.append(length) or os.sendfile(socket_fd, fd, position, length)
    )
    async with listening(files.handle) as acceptor, Client(acceptor) as client:
        await client.send(asked((0, 3 * MIB), (0, 3 * MIB)))
        assert await client.answer() == files.expected((0, 3 * MIB), (0, 3 * MIB))
    assert max(turns) <= MIB


@on_both_loops
async def test_ranges_that_are_not_cached_are_read_off_the_loop(files):
    real = files.fs.sendfile_now
    calls = []

    def cold_from_the_second_on(*arguments):
        calls.append(arguments)
        return real(*arguments) if len(calls) == 1 else None

    files.fs.sendfile_now = cold_from_the_second_on
    async with listening(files.handle) as acceptor, Client(acceptor) as client:
        await client.send(asked((3, 4 * MIB), (9, 2 * MIB)) + framed(b"after"))
        assert await client.answer() == files.expected((3, 4 * MIB), (9, 2 * MIB))
        assert await client.answer() == b"after"
    assert 0 < files.fs.sent_bytes < files.fs.read_bytes


@on_both_loops
async def test_files_without_sendfile_support_are_read(files):
    def refuse(*_):
        raise OSError(errno.EINVAL, "not this file")

    files.fs.instead = refuse
    async with listening(files.handle) as acceptor, Client(acceptor) as client:
        await client.send(asked((0, MIB)))
        assert await client.answer() == files.expected((0, MIB))
        assert not files.fs.can_sendfile
        await client.send(asked((5, MIB)))
        assert await client.answer() == files.expected((5, MIB))
    assert files.fs.sent_bytes == 0


@on_both_loops
async def test_a_truncated_file_closes_its_connection(files):
    async with listening(files.handle) as acceptor, Client(acceptor) as client:
        os.ftruncate(files.file.fd, 2 * MIB)
        await client.send(asked((0, 4 * MIB)) + framed(b"never"))
        got = await client.rest()
        assert len(got) <= 4 + 1 + 2 * MIB
        assert (struct.pack(">i", 4 * MIB + 2) + files.expected((0, 4 * MIB))).startswith(got)


@on_both_loops
async def test_a_disk_error_closes_only_its_connection(files):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    async with listening(files.handle) as acceptor, Client(acceptor) as client, Client(acceptor) as other:
        files.fs.instead = fail
        await client.send(asked((0, MIB)))
        assert len(await client.rest()) <= 5
        await other.send(framed(b"fine"))
        assert await other.answer() == b"fine"


@on_both_loops
async def test_clients_that_disconnect_during_an_answer_leave_nothing_open(files):
    async with listening(files.handle) as acceptor:
        before = open_descriptors()
        for reset in (False, True):
            client = Client(acceptor, NARROW)
            await client.__aenter__()
            await client.send(asked((0, 8 * MIB)))
            await client.exactly(100_000)
            if reset:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.close()
            await until(lambda: not acceptor.connections, "the broker has noticed")
        await until(lambda: open_descriptors() <= before, "all descriptors are closed")


@on_both_loops
async def test_large_buffers_among_the_ranges(files):
    """Converted records, for one: they may be more than the socket takes at once."""
    large = random.Random(2).randbytes(5 * MIB)

    def handle(_):
        return [struct.pack(">i", 6 * MIB), large, files.records(0, MIB)]

    async with listening(handle) as acceptor, Client(acceptor, NARROW) as client:
        await client.send(framed(b"x"))
        assert await client.answer() == large + files.data[:MIB]

"""Connections over real sockets, on both event loops."""

import asyncio
import contextlib
import os
import random
import socket
import struct
import weakref

from broker.network import acceptor as acceptor_module
from broker.network.connection import MIN_CAPACITY_BYTES, CloseConnectionError, Connection
from broker.network.limits import ConnectionQuota, MemoryBudget
from storage.file_system import FileSystem
from storage.log.file_records import FileRecords
from support.connections import Lazy, Pending, echo, framed
from support.listening import MIB, NARROW, Client, listening, without_garbage_collector
from support.loops import on_both_loops
from support.polling import until

LONG = 8 * MIB


@on_both_loops
async def test_frames_of_any_size_in_any_pieces_are_answered_in_order():
    rng = random.Random(1)
    bodies = [rng.randbytes(size) for size in (1, 9000, 5, 300_000, 70_000, 2, 1_000_000, 3)]
    data = b"".join(map(framed, bodies))
    async with listening() as acceptor, Client(acceptor) as client:

        async def send():
            position = 0
            while position < len(data):
                size = rng.choice([1, 2, 3, 700, 65536, 200_000])
                await client.send(data[position : position + size])
                position += size
                await asyncio.sleep(0)

        sending = asyncio.create_task(send())
        assert [await client.answer() for _ in bodies] == bodies
        await sending


@on_both_loops
async def test_a_client_that_does_not_read_is_paused_and_costs_one_buffer_step():
    lazy = Lazy(random.Random(2).randbytes(LONG))
    head = struct.pack(">i", len(lazy))
    async with (
        listening(lambda frame: [head, lazy] if frame == b"L" else echo(frame)) as acceptor,
        Client(acceptor, receive_buffer=NARROW) as stalled,
        Client(acceptor) as other,
    ):
        await stalled.send(framed(b"L") + framed(b"after"))
        await until(lambda: lazy.reads, "the answer is on its way")
        for number in range(50):
            await other.send(framed(b"%d" % number))
            assert await other.answer() == b"%d" % number
        read_bytes = sum(size for _, size in lazy.reads)
        assert read_bytes <= 3 * MIB  # what the system's buffers take, and one step
        assert 0 < acceptor.budget.unsent_bytes <= 2 * MIB
        assert await stalled.answer() == lazy.data
        assert await stalled.answer() == b"after"
        assert acceptor.budget.unsent_bytes == 0


@on_both_loops
async def test_a_closed_connection_is_freed_at_once():
    """It may have a buffer of the size of its largest request."""
    async with listening() as acceptor:
        with without_garbage_collector():
            async with Client(acceptor) as client:
                await client.send(framed(bytes(5 * MIB)))
                assert len(await client.answer()) == 5 * MIB
                connection = weakref.ref(*acceptor.connections)
            await until(lambda: connection() is None, "the connection is freed")


@on_both_loops
async def test_a_client_that_disconnects_during_an_answer_does_not_affect_others():
    lazy = Lazy(bytes(LONG))
    head = struct.pack(">i", len(lazy))
    async with (
        listening(lambda frame: [head, lazy] if frame == b"L" else echo(frame)) as acceptor,
        Client(acceptor) as other,
    ):
        async with Client(acceptor, receive_buffer=NARROW) as leaving:
            await leaving.send(framed(b"L"))
            await leaving.exactly(10)
        await until(lambda: len(acceptor.connections) == 1, "it is gone")
        assert sum(size for _, size in lazy.reads) < len(lazy)
        await other.send(framed(b"x"))
        assert await other.answer() == b"x"


@on_both_loops
async def test_a_file_truncated_during_an_answer_closes_only_its_connection(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(LONG))
    fs = FileSystem()
    records = FileRecords(fs, fs.open(str(path)), 0, LONG)
    head = struct.pack(">i", len(records))
    async with (
        listening(lambda frame: [head, records] if frame == b"L" else echo(frame)) as acceptor,
        Client(acceptor, receive_buffer=NARROW) as reading,
        Client(acceptor) as other,
    ):
        await reading.send(framed(b"L"))
        await reading.exactly(10)
        os.truncate(path, MIB // 2)
        assert len(await reading.rest()) < LONG
        await until(lambda: len(acceptor.connections) == 1, "it is closed")
        await other.send(framed(b"x"))
        assert await other.answer() == b"x"


@on_both_loops
async def test_at_most_one_buffer_is_read_while_a_request_waits():
    pending = []

    def handle(frame):
        if frame == b"w":
            pending.append(Pending())
            return pending[-1]
        return echo(frame)

    async with listening(handle) as acceptor, Client(acceptor) as client:
        await client.send(framed(b"w"))
        many = [b"%d" % number * 100 for number in range(5000)]
        sending = asyncio.create_task(client.send(b"".join(map(framed, many))))
        await until(lambda: pending, "the first is there")
        [connection] = acceptor.connections
        await until(lambda: connection._reading_paused, "the buffer is full")
        assert len(connection._buffer) == MIN_CAPACITY_BYTES
        pending[0].answer([framed(b"W")])
        assert [await client.answer() for _ in range(5001)] == [b"W", *many]
        await sending


@on_both_loops
async def test_a_client_that_has_shut_its_writing_side_gets_its_answers():
    """As from Kafka, which notices the end of the stream behind the last request."""
    pending = []

    def handle(frame):
        if frame == b"w":
            pending.append(Pending())
            return pending[-1]
        return echo(frame)

    async with listening(handle) as acceptor, Client(acceptor) as client:
        await client.send(framed(b"a") + framed(b"w") + framed(b"b"))
        client.socket.shutdown(socket.SHUT_WR)
        assert await client.answer() == b"a"
        await until(lambda: all(one._eof for one in acceptor.connections), "the end was seen")
        assert len(acceptor.connections) == 1
        pending[0].answer([framed(b"W")])
        assert await client.rest() == framed(b"W") + framed(b"b")
        await until(lambda: not acceptor.connections, "it is closed")


@on_both_loops
async def test_an_answer_before_a_bad_frame_is_delivered():
    def handle(frame):
        if frame == b"bad":
            raise CloseConnectionError("bad")
        return echo(frame)

    async with listening(handle) as acceptor:
        for end in (framed(b"bad"), struct.pack(">i", -1), struct.pack(">i", 2**31 - 1)):
            async with Client(acceptor) as client:
                await client.send(framed(b"good") + end)
                assert await client.rest() == framed(b"good")


@on_both_loops
async def test_the_request_of_a_client_that_resets_is_cancelled():
    pending = Pending()
    async with listening(lambda frame: pending) as acceptor:
        async with Client(acceptor) as client:
            await client.send(framed(b"w"))
            await until(lambda: pending.callback, "it waits")
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await until(lambda: not acceptor.connections, "it is gone")
        assert pending.abandoned


# -- limits ----------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_connections_before_the_start_wait_until_requests_are_served():
    """Whatever the loop has read of them: uvloop reads what is there at once, though it was told to pause."""
    handled = []

    def handle(frame):
        handled.append(bytes(frame))
        return echo(frame)

    async with listening(handle, is_running=False) as acceptor:
        async with Client(acceptor) as client, Client(acceptor) as large:
            await client.send(framed(b"early"))
            sending = asyncio.create_task(large.send(framed(bytes(MIB))))
            await until(lambda: len(acceptor.connections) == 2, "they are there")
            await asyncio.sleep(0.02)
            assert handled == []
            running = asyncio.create_task(acceptor.run())
            assert await client.answer() == b"early"
            assert await large.answer() == bytes(MIB)
            await sending
            assert acceptor._quota.total == 2
        await until(lambda: not acceptor.connections, "they are gone")
        assert acceptor._quota.total == 0
        running.cancel()


@on_both_loops
async def test_connections_above_the_limit_wait_or_are_closed():
    loop = asyncio.get_running_loop()
    quota = ConnectionQuota(max_connections=2, now_s=loop.time, call_later=loop.call_later)
    async with listening(quota=quota) as acceptor:
        async with Client(acceptor) as first, Client(acceptor) as second, Client(acceptor) as third:
            for client in (first, second, third):
                await client.send(framed(b"x"))
            assert await first.answer() == await second.answer() == b"x"
            await until(lambda: sum(one._held for one in acceptor.connections) == 1, "the third waits")
            second.socket.close()
            assert await third.answer() == b"x"
        quota.set_limits(max_connections=100, max_per_ip=0, per_ip_overrides={}, creation_rate_per_s=100)
        async with Client(acceptor) as refused:
            assert await refused.rest() == b""
        await until(lambda: quota.total == 0, "all are counted out")


@on_both_loops
async def test_large_requests_wait_for_memory_and_all_are_served():
    budget = MemoryBudget(100_000)
    body = random.Random(3).randbytes(300_000)

    async def ask(acceptor):
        async with Client(acceptor) as client:
            for _ in range(3):
                await client.send(framed(body))
                assert await client.answer() == body

    async with listening(budget=budget) as acceptor:
        async with Client(acceptor) as stalled:
            await stalled.send(struct.pack(">i", 100_000) + b"x")
            await until(lambda: budget.reserved_bytes, "the room is taken")
            asking = [asyncio.create_task(ask(acceptor)) for _ in range(5)]
            await until(lambda: len(budget._waiting) == 5, "they wait")
        await asyncio.gather(*asking)
        assert budget.reserved_bytes == 0


@on_both_loops
async def test_idle_connections_are_closed_and_connections_with_a_waiting_request_are_not():
    pending = Pending()
    async with (
        listening(lambda frame: pending if frame == b"w" else echo(frame), max_idle_s=0.1) as acceptor,
        Client(acceptor) as idle,
        Client(acceptor) as waiting,
        Client(acceptor) as half,
    ):
        await waiting.send(framed(b"w"))
        await half.send(b"\0\0")
        assert await idle.rest() == await half.rest() == b""
        assert len(acceptor.connections) == 1
        pending.answer([framed(b"W")])
        assert await waiting.answer() == b"W"
        assert await waiting.rest() == b""


@on_both_loops
async def test_a_client_that_does_not_read_its_answer_counts_as_idle():
    lazy = Lazy(bytes(LONG))
    async with (
        listening(lambda frame: [struct.pack(">i", len(lazy)), lazy], max_idle_s=0.1) as acceptor,
        Client(acceptor, receive_buffer=NARROW) as client,
    ):
        await client.send(framed(b"L"))
        await until(lambda: lazy.reads, "the answer is on its way")
        await until(lambda: not acceptor.connections, "it is closed")
        assert len(await client.rest()) < len(lazy)


@on_both_loops
async def test_a_negative_idle_limit_disables_it():
    async with listening(max_idle_s=-0.001) as acceptor, Client(acceptor) as client:
        await until(lambda: acceptor.connections, "it is there")
        [connection] = acceptor.connections
        connection.last_active_s -= 1e9
        acceptor._sweep(connection, 1e9)
        await client.send(framed(b"x"))
        assert await client.answer() == b"x"


@on_both_loops
async def test_quiet_connections_release_their_large_buffers():
    async with listening() as acceptor, Client(acceptor) as client:
        await client.send(framed(bytes(500_000)))
        await client.answer()
        [connection] = acceptor.connections
        assert acceptor.budget.receive_bytes > 400_000
        acceptor._sweep(connection, acceptor_module.QUIET_S + 1)
        assert acceptor.budget.receive_bytes == MIN_CAPACITY_BYTES
        await client.send(framed(bytes(100_000)))
        assert await client.answer() == bytes(100_000)


@on_both_loops
async def test_closing_the_listener_closes_the_connections_and_frees_the_port():
    async with listening() as acceptor, Client(acceptor) as client:
        await until(lambda: acceptor.connections, "it is there")
        await acceptor.close()
        assert await client.rest() == b""
        await acceptor.close()  # once more does no harm
        with contextlib.closing(socket.socket()) as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", acceptor.port))


@on_both_loops
async def test_a_connection_that_was_accepted_before_close_and_made_after_it_is_closed():
    async with listening() as acceptor:
        await acceptor.close()
        ours, theirs = socket.socketpair()
        with ours:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: Connection(acceptor), theirs)
            ours.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(ours, 1) == b""

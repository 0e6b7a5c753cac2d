"""Processes on one event loop: a paused one runs no callback, no timer and no socket; the others go on."""

import asyncio
import contextvars
import socket

import pytest

from ottla.testing.process_loop import CURRENT, Process, ProcessLoop

VALUE = contextvars.ContextVar("VALUE", default=0)


@pytest.fixture
def runner():
    with asyncio.Runner(loop_factory=ProcessLoop) as made:
        yield made


def test_tasks_timers_and_callbacks_of_a_paused_process_wait(runner):
    seen = []

    async def work(name):
        VALUE.set(7)
        for step in range(3):
            seen.append((name, step, CURRENT.get() and CURRENT.get().name, VALUE.get()))
            await asyncio.sleep(0)

    async def main():
        loop = asyncio.get_running_loop()
        process = Process("p")
        loop.pause(process)
        task = loop.create_task(work("in"), context=process.context)
        loop.call_later(0, seen.append, "timer", context=process.context)
        cancelled = loop.call_soon(seen.append, "cancelled", context=process.context)
        await loop.create_task(work("out"))
        await asyncio.sleep(0.01)
        assert [one[:2] for one in seen] == [("out", step) for step in range(3)]
        cancelled.cancel()
        seen.clear()
        loop.resume(process)
        await task
        assert "timer" in seen
        assert [one for one in seen if one != "timer"] == [("in", step, "p", 7) for step in range(3)]

    runner.run(main())


def test_sockets_of_a_paused_process_are_not_read(runner):
    class Reader(asyncio.Protocol):
        received = b""

        def data_received(self, data):
            self.received += data
            arrived.set()

    arrived = asyncio.Event()

    async def main():
        loop = asyncio.get_running_loop()
        process = Process("p")
        ours, theirs = socket.socketpair()
        with ours:

            async def open_socket():
                return await loop.connect_accepted_socket(Reader, theirs)

            transport, reader = await loop.create_task(open_socket(), context=process.context)
            loop.pause(process)
            ours.sendall(b"one")
            await asyncio.sleep(0.01)
            assert reader.received == b""
            loop.resume(process)
            await arrived.wait()
            assert reader.received == b"one"
            transport.close()
            await asyncio.sleep(0)

    runner.run(main())


@pytest.mark.parametrize("change", ["abort", "pause_reading", "resume_reading"])
def test_a_connection_of_a_paused_process_can_be_changed(runner, change):
    class Reader(asyncio.Protocol):
        received = b""
        is_lost = False

        def data_received(self, data):
            self.received += data

        def connection_lost(self, exc):
            self.is_lost = True

    async def main():
        loop = asyncio.get_running_loop()
        process = Process("p")
        ours, theirs = socket.socketpair()
        with ours:

            async def open_socket():
                return await loop.connect_accepted_socket(Reader, theirs)

            transport, reader = await loop.create_task(open_socket(), context=process.context)
            if change == "resume_reading":
                transport.pause_reading()
            loop.pause(process)
            process.context.copy().run(getattr(transport, change))
            ours.sendall(b"one")
            await asyncio.sleep(0.01)
            assert (reader.received, reader.is_lost) == (b"", False)
            loop.resume(process)
            for _ in range(5):
                await asyncio.sleep(0)
            assert reader.is_lost == (change == "abort")
            assert reader.received == (b"one" if change == "resume_reading" else b"")
            transport.abort()
            await asyncio.sleep(0)

    runner.run(main())

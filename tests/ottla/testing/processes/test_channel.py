"""A channel between two processes: answers, errors, and the end of the other one."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ottla.testing.faults.errors import FaultError
from ottla.testing.processes.channel import Channel, ChannelClosedError
from support.polling import until


class Pair:
    """Two ends; the one answers what the other asks."""

    def __init__(self):
        self.told = []
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
        self.one, self.other = Channel(ends[0], self.work), Channel(ends[1], self.work)

    async def work(self, frame):
        match frame["do"]:
            case "double":
                return 2 * frame["value"]
            case "wait":
                await asyncio.Event().wait()
            case "refuse":
                raise FaultError("not today")
            case "break":
                raise KeyError("x")
        self.told.append(frame)
        return None

    async def open(self):
        return [await self.one.open(), await self.other.open()]


async def test_answers_and_errors():
    pair = Pair()
    reading = await pair.open()
    waiting = asyncio.create_task(pair.one.ask(do="wait"))
    assert await pair.one.ask(do="double", value=21) == 42
    assert await pair.other.ask(do="double", value="x" * 1_000_000) == "x" * 2_000_000
    with pytest.raises(FaultError, match="not today"):
        await pair.one.ask(do="refuse")
    with pytest.raises(RuntimeError, match="KeyError: 'x'"):
        await pair.one.ask(do="break")
    pair.one.tell(do="note", value=1)
    await until(lambda: pair.told == [{"do": "note", "value": 1}], "the other end was told")
    pair.other.close()
    with pytest.raises(ChannelClosedError):
        await waiting
    await asyncio.wait(reading)
    with pytest.raises(ChannelClosedError):
        await pair.one.ask(do="double", value=1)
    pair.one.tell(do="note", value=2)
    assert len(pair.told) == 1


async def test_a_channel_that_is_not_open():
    pair = Pair()
    with pytest.raises(ChannelClosedError):
        await pair.one.ask(do="double", value=1)
    pair.one.close()
    pair.other.close()

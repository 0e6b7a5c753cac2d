"""The producers that a Python worker of Spark keeps: connections and producer ids outlive a task and serve the next.

A task borrows a producer that nobody uses, or gets a new one, and gives it back when all of its rows are acknowledged;
that of a task that failed is closed, with what still waits in it. One that nobody has wanted for `IDLE_S` is closed.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from client.producer import Producer
from spark_connector.retry import retry

IDLE_S: Final = 60.0
_MAX_BLOCK_MS: Final = 60_000  # of a producer, where none is set

_Key = tuple[tuple[str, Any], ...]


class _Idle:
    """A producer that nobody uses, and the timer that closes it."""

    def __init__(self, producer: Producer, key: _Key) -> None:
        self.producer = producer
        self.key = key
        self.timer = asyncio.get_running_loop().call_later(IDLE_S, self._expire)

    def _expire(self) -> None:
        _idle.remove(self)
        task = asyncio.get_running_loop().create_task(self.producer.close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


_idle: list[_Idle] = []
_closing: set[asyncio.Task[None]] = set()
_owner = -1


async def borrow(options: Mapping[str, Any]) -> Producer:
    """A producer with these options, started. Raises NoBrokersAvailableError, InvalidOptionError."""
    producer = _take(_key(options))
    if producer is None:
        producer = await open_producer(options)
    return producer


async def open_producer(options: Mapping[str, Any]) -> Producer:
    """A new producer, started; a cluster that is away is waited for, for max_block_ms. Raises what the client does."""
    timeout_s = options.get("max_block_ms", _MAX_BLOCK_MS) / 1000

    async def start() -> Producer:
        producer = new_producer(options)
        try:
            await producer.start()
        except BaseException:
            await producer.close(timeout_s=0)
            raise
        return producer

    return await retry(start, timeout_s=timeout_s)


async def give_back(producer: Producer, options: Mapping[str, Any], *, is_sound: bool) -> None:
    """The task is done with it. One that is not sound is closed, and what waits in it is not sent any more."""
    if is_sound:
        _idle.append(_Idle(producer, _key(options)))
    else:
        await producer.close(timeout_s=0)


def new_producer(options: Mapping[str, Any]) -> Producer:
    """A producer for a task, not started. Raises InvalidOptionError for a value that breaks a rule."""
    return Producer(**{"client_id": "ottla-spark", **options})


def idle_producers() -> int:
    """How many producers wait for a task."""
    return len(_idle)


def _key(options: Mapping[str, Any]) -> _Key:
    return tuple(sorted(options.items()))


def _take(key: _Key) -> Producer | None:
    global _owner
    if _owner != os.getpid():  # what a process that was forked off has inherited is its parent's
        _idle.clear()
        _owner = os.getpid()
    for one in _idle:
        if one.key == key:
            one.timer.cancel()
            _idle.remove(one)
            return one.producer
    return None

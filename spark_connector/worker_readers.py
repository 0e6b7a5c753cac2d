"""The readers that a Python worker of Spark keeps: connections outlive a task, and serve the next one.

A task borrows a reader that nobody uses, or gets a new one, and gives it back when it is done; one that failed is
closed. A reader that nobody has wanted for `IDLE_S` is closed.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from client.reader import Reader
from spark_connector.patience import patiently

IDLE_S: Final = 60.0

Key = tuple[tuple[str, Any], ...]
_READER_ONLY: Final = ("default_api_timeout_ms", "group_id")


class _Idle:
    """A reader that nobody uses, and the timer that closes it."""

    def __init__(self, reader: Reader, key: Key) -> None:
        self.reader = reader
        self.key = key
        self.timer = asyncio.get_running_loop().call_later(IDLE_S, self._expire)

    def _expire(self) -> None:
        _idle.remove(self)
        task = asyncio.get_running_loop().create_task(self.reader.close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


_idle: list[_Idle] = []
_closing: set[asyncio.Task[None]] = set()
_owner = -1


async def borrow(options: Mapping[str, Any]) -> Reader:
    """A reader with these options. Raises NoBrokersAvailableError, InvalidOptionError."""
    global _owner
    if _owner != os.getpid():  # what a process that was forked off has inherited is its parent's
        _idle.clear()
        _owner = os.getpid()
    key = _key(options)
    for one in _idle:
        if one.key == key:
            one.timer.cancel()
            _idle.remove(one)
            return one.reader
    known = {name: value for name, value in options.items() if name not in _READER_ONLY}
    reader = Reader(**{"client_id": "ottla-spark", **known, "auto_offset_reset": "none"})
    try:
        await patiently(reader.start, options)
    except BaseException:
        await reader.close()
        raise
    return reader


async def give_back(reader: Reader, options: Mapping[str, Any], *, is_sound: bool) -> None:
    """The task is done with it. One that is not sound is closed: it may hold an error, or answers on their way."""
    if not is_sound:
        await reader.close()
        return
    reader.assign({})
    _idle.append(_Idle(reader, _key(options)))


def idle_readers() -> int:
    """How many readers wait for a task."""
    return len(_idle)


def _key(options: Mapping[str, Any]) -> Key:
    return tuple(sorted(options.items()))

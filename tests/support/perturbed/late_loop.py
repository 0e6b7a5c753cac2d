"""An event loop that is late at random, as on a machine that is busy with something else.

Each delay is one that a real loop may have: the whole loop stalls, events of one socket are seen late, timers fire late
but in order, work in a thread takes longer, and a line of output comes late. The order of callbacks is asyncio's.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import random
import selectors
import sys
import threading
import time
from asyncio import unix_events
from collections.abc import Callable
from typing import Any

LATE_EVENT = 0.05
"""How often the events of a socket that has become ready are held back, if the longest delay is `USUAL_S`."""
STALL = 0.002
LATE_THREAD = 0.2
LATE_OUTPUT = 0.2
USUAL_S = 0.04
LONGEST_S = (0.01, USUAL_S, 0.16)
"""Longest delays, of which each loop has one. The longer they are, the rarer: the sum is the same."""
TIMER_GRID_S = 0.02
"""Timers fire at instants that are this far apart."""
_POLL_S = 0.001


class Choices:
    """The random choices of a loop."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._longest_s = self._random.choice(LONGEST_S)

    def delay(self, chance: float) -> float:
        """A delay in seconds; mostly 0. chance: how often it is not, if the longest delay is the usual one."""
        is_late = self._random.random() < chance * USUAL_S / self._longest_s
        return self._random.uniform(0, self._longest_s) if is_late else 0

    def sleep(self, chance: float) -> None:
        """Delay this thread."""
        if delay := self.delay(chance):
            time.sleep(delay)


class LateSelector(selectors.DefaultSelector):
    """Holds back the events of some files, and stalls at random."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self._choices = choices
        self._held_until: dict[int, float] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the events that are not held back. It polls while there are only others."""
        self._choices.sleep(STALL)
        end = None if timeout is None else time.monotonic() + max(timeout, 0)
        while True:
            ready = super().select(None if end is None else max(end - time.monotonic(), 0))
            seen = [(key, mask) for key, mask in ready if not self._is_held(key.fd)]
            if seen or not ready or (end is not None and time.monotonic() >= end):
                return seen
            time.sleep(_POLL_S)

    def _is_held(self, fd: int) -> bool:
        now = time.monotonic()
        if fd not in self._held_until:
            self._held_until[fd] = now + self._choices.delay(LATE_EVENT)
        if now < self._held_until[fd]:
            return True
        del self._held_until[fd]
        return False


def _next_instant(when: float) -> float:
    """The end of the cell of the grid that `when` is in, and so much more that two timers keep their order."""
    cell = when // TIMER_GRID_S
    return (cell + 1) * TIMER_GRID_S + (when - cell * TIMER_GRID_S) / 1000


class LateLoop(unix_events._UnixSelectorEventLoop):  # type: ignore[misc, name-defined]
    """asyncio's loop with delays."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        super().__init__(LateSelector(choices))

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Fire at the next instant of the grid. Two timers keep their order."""
        handle: asyncio.TimerHandle = super().call_at(_next_instant(when), callback, *args, context=context)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Delay the thread that calls, unless it is the loop's."""
        if self._thread_id is not None and self._thread_id != threading.get_ident():
            self._choices.sleep(LATE_THREAD)
        handle: asyncio.Handle = super().call_soon_threadsafe(callback, *args, context=context)
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Delay the work."""

        def late() -> Any:
            self._choices.sleep(LATE_THREAD)
            return func(*args)

        future: asyncio.Future[Any] = super().run_in_executor(executor, late)
        return future


class _LateOutput:
    """Writes to a stream, each time after a delay."""

    def __init__(self, write: Callable[[str], int], choices: Choices) -> None:
        self._write = write
        self._choices = choices

    def __call__(self, text: str) -> int:
        self._choices.sleep(LATE_OUTPUT)
        return self._write(text)


def install(seed: str, *, output: bool) -> None:
    """Make every new event loop of this process a late one, uvloop's too. output: printed lines come late as well."""
    numbers = itertools.count()

    def choices() -> Choices:
        return Choices(f"{seed} {os.getpid()} {next(numbers)}")  # a forked process has its own

    def new_loop() -> LateLoop:
        return LateLoop(choices())

    unix_events._UnixDefaultEventLoopPolicy._loop_factory = staticmethod(new_loop)  # type: ignore[attr-defined]
    with contextlib.suppress(ImportError):  # it is in the extra `fast`
        import uvloop

        uvloop.new_event_loop = new_loop
    if output:
        for stream in (sys.stdout, sys.stderr):
            stream.write = _LateOutput(stream.write, choices())  # type: ignore[method-assign]

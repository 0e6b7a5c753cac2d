"""An event loop in virtual time: when nothing is left to do, time advances to the next timer.

No selector, no threads: what happens is decided by the order of calls and by the timers, so a run can be repeated. Two
more things make it so. Tasks and futures are hashed by the order in which they were made, not by their address:
asyncio keeps them in sets. A request for a thread is an error. A process that has died or is paused (`process`)
does not run.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, TypeVar

from support.simulation.process import CURRENT, ProcessState, SimulatedProcess

T = TypeVar("T")

STEPS_AT_ONE_TIME = 200_000
"""So many callbacks without any time going by mean that somebody goes round in circles."""


class SimulationStuckError(Exception):
    """No event can ever happen again, or virtual time does not advance."""


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is the same in every run."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)
        self._log_destroy_pending = False  # of the dead nobody wants to hear

    def __hash__(self) -> int:
        return self._number


class NumberedFuture(asyncio.Future[Any]):
    """A future whose hash is the same in every run."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """`time()` starts at 0 and moves only when nothing is left to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._steps = 0
        self.set_task_factory(_new_task)

    def time(self) -> float:
        """Seconds since the beginning of the simulation."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return NumberedFuture(loop=self)

    def resume(self, process: SimulatedProcess) -> None:
        """Resume a paused process, beginning with the events that it missed."""
        assert process.state is ProcessState.PAUSED
        process.state = ProcessState.RUNNING
        self._ready.extend(process.held)
        process.held.clear()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> NoReturn:
        """There are no threads here."""
        raise AssertionError(f"{func!r} asks for a thread: a simulation cannot be repeated with one")

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        if not ready:
            while scheduled and scheduled[0].cancelled():
                heapq.heappop(scheduled)._scheduled = False
            if not scheduled:
                raise SimulationStuckError("nobody has anything left to do, nor waits for a time")
            due = scheduled[0].when()
            if due > self._now:
                self._now = due
                self._steps = 0
        while scheduled and scheduled[0].when() <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        self._steps += len(ready)
        if self._steps > STEPS_AT_ONE_TIME:
            raise SimulationStuckError(f"time stands still at {self._now:.6f} s: {ready[0]!r}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT)
            if process is None or process.state is ProcessState.RUNNING:
                handle._run()
            elif process.state is ProcessState.PAUSED:
                process.held.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def _process_events(self, event_list: object) -> None:
        """There are none."""


def _new_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], **options: Any
) -> asyncio.Task[T]:
    """options: the context; newer Pythons also give the name."""
    return NumberedTask(coro, loop=loop, **options)

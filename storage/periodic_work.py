"""Work that is done from time to time by one task, one piece after the other.

Beside the jobs with an interval there is urgent work, which is looked at whenever somebody wakes the task, and
before every job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

_LONGEST_SLEEP_S = 3600.0


class Job(NamedTuple):
    """Something to do every `interval_ms`, for the first time after `first_ms` (None: after the interval)."""

    interval_ms: float
    run: Callable[[], Awaitable[None]]
    first_ms: float | None = None


class PeriodicWork:
    """Jobs and urgent work. What they raise ends `run`."""

    def __init__(
        self,
        jobs: Sequence[Job],
        urgent: Callable[[], Awaitable[None]],
        next_urgent_s: Callable[[], float | None],
    ) -> None:
        """next_urgent_s: in how many seconds there is urgent work even if nobody wakes us; None: not at all."""
        self._jobs = jobs
        self._urgent = urgent
        self._next_urgent_s = next_urgent_s
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There is urgent work. To be called on the event loop."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        due = [loop.time() + (job.interval_ms if job.first_ms is None else job.first_ms) / 1000 for job in self._jobs]
        while True:
            await self._urgent()
            for number, job in enumerate(self._jobs):
                if due[number] <= loop.time():
                    await job.run()
                    due[number] = loop.time() + job.interval_ms / 1000
            wait_s = min(*due, loop.time() + _LONGEST_SLEEP_S) - loop.time()
            next_urgent_s = self._next_urgent_s()
            if next_urgent_s is not None:
                wait_s = min(wait_s, next_urgent_s)
            try:
                async with asyncio.timeout(max(wait_s, 0.001)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

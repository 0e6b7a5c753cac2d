"""Periodic jobs and urgent work, run one after the other by a single task.

Urgent work runs whenever the task is woken, and before the periodic jobs of each round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

_LONGEST_SLEEP_S = 3600.0


class Job(NamedTuple):
    """A function to run every `interval_ms`; the first run is after `first_ms` (None: after the interval)."""

    interval_ms: float
    run: Callable[[], Awaitable[None]]
    first_ms: float | None = None


class PeriodicWork:
    """Run jobs and urgent work. An exception that one of them raises ends `run`."""

    def __init__(
        self,
        jobs: Sequence[Job],
        urgent: Callable[[], Awaitable[None]],
        next_urgent_s: Callable[[], float | None],
    ) -> None:
        """next_urgent_s: seconds until urgent work is due without a call of `wake`; None if none is due."""
        self._jobs = jobs
        self._urgent = urgent
        self._next_urgent_s = next_urgent_s
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Run the urgent work soon. Call this on the event loop."""
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

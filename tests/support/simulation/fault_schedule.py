"""When faults happen: each is chosen by the run's random numbers, begins, lasts for some time, and is undone.

A broker has one fault of its process at a time; links, sessions, disks and clocks may suffer besides. `Suspicion` says
what may not happen while data that was not synced has been lost somewhere; with flush.messages=1 nothing is ever lost,
and there is no such limit.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from support.simulation.broker_host import BrokerHost
from support.simulation.cluster import SimulatedCluster
from support.simulation.suspicion import Suspicion

PAUSE_S = (0.1, 3.0)


class Kind(NamedTuple):
    """A kind of fault."""

    weight: int
    fault: Callable[[BrokerHost], Awaitable[None]]
    needs_others: bool
    """Whether others must be able to do without the broker."""


class FaultSchedule(ABC):
    """Injects faults for some time."""

    def __init__(
        self, cluster: SimulatedCluster, rng: random.Random, suspicion: Suspicion, *, is_always_synced: bool
    ) -> None:
        """is_always_synced: nothing is acknowledged before it is synced."""
        self.count = 0
        self._cluster = cluster
        self._random = rng
        self._suspicion = suspicion
        self._is_always_synced = is_always_synced
        self._busy: set[int] = set()  # brokers whose process has a fault
        self._active = 0
        self._calm_since = 0.0
        self._waits_for_calm = False
        self._tasks: asyncio.TaskGroup

    @abstractmethod
    def kinds(self) -> list[Kind]:
        """What may happen, and how often."""

    async def run(self, duration_s: float) -> None:
        """Inject faults for some time; on return all faults are undone, and stopped brokers are restarted."""
        loop = asyncio.get_running_loop()
        end = loop.time() + duration_s
        kinds = self.kinds()
        weights = [kind.weight for kind in kinds]
        async with asyncio.TaskGroup() as self._tasks:
            while loop.time() < end:
                await asyncio.sleep(self._random.uniform(*PAUSE_S))
                if self._waits_for_calm:
                    continue
                (kind,) = self._random.choices(kinds, weights)
                host = self._cluster.hosts[self._random.choice(list(self._cluster.hosts))]
                if kind.needs_others and not self._may_fail(host):
                    continue
                self._tasks.create_task(kind.fault(host))  # type: ignore[arg-type]

    def _may_fail(self, host: BrokerHost) -> bool:
        return self._is_always_synced or self._suspicion.may_fail(host.broker_id)

    @contextmanager
    def _fault(self, *words: object) -> Iterator[None]:
        """Mark the block as the duration of a fault."""
        self.count += 1
        self._active += 1
        self._cluster.trace.tell("fault:", *words)
        try:
            yield
        finally:
            self._active -= 1
            self._calm_since = asyncio.get_running_loop().time()
            self._cluster.trace.tell("  end of:", *words)

    @contextmanager
    def _alone(self, host: BrokerHost) -> Iterator[bool]:
        """Reserve a broker's process for one fault; False if it is reserved already."""
        if host.broker_id in self._busy or not host.is_up:
            yield False
            return
        self._busy.add(host.broker_id)
        try:
            yield True
        finally:
            self._busy.discard(host.broker_id)

    async def _some_time(self, at_least: float, at_most: float) -> None:
        await asyncio.sleep(self._random.uniform(at_least, at_most))

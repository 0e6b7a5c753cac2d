"""The faults of a run, chosen by its random numbers: each fault begins, lasts for some time, and is undone.

A broker has one fault of its process at a time; links, sessions and clocks may suffer besides. `Suspicion` says what
may not happen while data that was not synced has been lost somewhere; with flush.messages=1 nothing is ever lost, and
there is no such limit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from support.simulation.broker_host import BrokerHost
from support.simulation.cluster import SESSION_TIMEOUT_S, NotInTimeError, SimulatedCluster
from support.simulation.link import QUICK_S
from support.simulation.suspicion import Suspicion

PAUSE_S = (0.1, 3.0)
CALM_S = SESSION_TIMEOUT_S
"""After so long without any fault the registry, the controller and the brokers agree on who is in sync."""
SLOW_S = (0.05, 1.2)
JUMP_MS = 3_600_000


class Faults:
    """The faults of one run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        rng: random.Random,
        suspicion: Suspicion,
        *,
        is_in_sync: Callable[[], bool],
        is_always_synced: bool,
    ) -> None:
        """is_in_sync: whether every replica is in its ISR. is_always_synced: nothing is acknowledged before it is."""
        self.count = 0
        self._cluster = cluster
        self._random = rng
        self._suspicion = suspicion
        self._is_in_sync = is_in_sync
        self._is_always_synced = is_always_synced
        self._busy: set[int] = set()  # brokers whose process has a fault
        self._active = 0
        self._calm_since = 0.0
        self._waits_for_calm = False
        self._tasks: asyncio.TaskGroup
        self._kinds: list[tuple[int, Callable[[BrokerHost], Awaitable[None]], bool]] = [
            (5, self._kill, True),
            (3, self._stop, True),
            (5, self._pause, True),
            (3, self._expire, True),
            (3, self._disconnect, True),
            (4, self._depose, True),
            (5, self._cut_link, True),
            (4, self._isolate, True),
            (3, self._delay, True),
            (5, self._reset, False),
            (2, self._jump, False),
            (1, self._kill_all, True),
            (4, self._cut_power, False),
            (1, self._cut_all_power, False),
        ]
        """How often, what, and whether others must be able to do without the broker."""

    async def run(self, duration_s: float) -> None:
        """Inject faults for some time; on return all faults are undone, and stopped brokers are restarted."""
        loop = asyncio.get_running_loop()
        end = loop.time() + duration_s
        weights = [weight for weight, _, _ in self._kinds]
        async with asyncio.TaskGroup() as self._tasks:
            while loop.time() < end:
                await asyncio.sleep(self._random.uniform(*PAUSE_S))
                if self._waits_for_calm:
                    continue
                ((_, fault, needs_others),) = self._random.choices(self._kinds, weights)
                host = self._cluster.hosts[self._random.choice(list(self._cluster.hosts))]
                if needs_others and not self._may_fail(host):
                    continue
                self._tasks.create_task(fault(host))  # type: ignore[arg-type]

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

    # -- processes ---------------------------------------------------------------------------------------------------

    async def _kill(self, host: BrokerHost) -> None:
        with self._alone(host) as is_alone:
            if is_alone:
                with self._fault("kill", host.name):
                    host.kill()
                    await self._restart(host)

    async def _restart(self, host: BrokerHost) -> None:
        await self._some_time(0.05, 1.5 * SESSION_TIMEOUT_S)
        if self._random.random() < 0.5:
            await host.end_old_session()
        host.start()
        await self._some_time(0.0, 1.0)

    async def _kill_all(self, host: BrokerHost) -> None:
        if all(self._may_fail(one) for one in self._cluster.hosts.values()):
            for one in self._cluster.hosts.values():
                self._tasks.create_task(self._kill(one))

    async def _stop(self, host: BrokerHost) -> None:
        with self._alone(host) as is_alone:
            if is_alone:
                with self._fault("stop", host.name):
                    await host.stop()
                    await self._some_time(0.0, 3.0)
                    host.start()
                    await self._some_time(0.0, 1.0)

    async def _pause(self, host: BrokerHost) -> None:
        with self._alone(host) as is_alone:
            if is_alone:
                with self._fault("pause", host.name):
                    host.pause()
                    await self._some_time(0.1, 2 * SESSION_TIMEOUT_S)
                    host.resume()

    # -- power -------------------------------------------------------------------------------------------------------

    async def _cut_power(self, host: BrokerHost) -> None:
        if self._is_always_synced:
            await self._lose_power(host)
            return
        if self._waits_for_calm:
            return
        self._waits_for_calm = True
        try:
            await self._cluster.until(self._is_calm, "calm", 25.0)
            if self._suspicion.may_lose(host.broker_id) and host.is_up:
                self._tasks.create_task(self._lose_power(host))
                await asyncio.sleep(0)
        except NotInTimeError as error:
            self._cluster.trace.tell(error)
        finally:
            self._waits_for_calm = False

    def _is_calm(self) -> bool:
        is_quiet = not self._active and asyncio.get_running_loop().time() - self._calm_since > CALM_S
        return is_quiet and self._is_in_sync()

    async def _lose_power(self, host: BrokerHost) -> None:
        with self._alone(host) as is_alone:
            if is_alone:
                with self._fault("cut power of", host.name):
                    host.cut_power()
                    if not self._is_always_synced:
                        self._suspicion.has_lost(host.broker_id)
                    await self._some_time(0.1, 4.0)
                    host.power_on()
                    await self._restart(host)

    async def _cut_all_power(self, host: BrokerHost) -> None:
        if self._is_always_synced:
            for one in self._cluster.hosts.values():
                self._tasks.create_task(self._lose_power(one))

    # -- the registry ------------------------------------------------------------------------------------------------

    async def _expire(self, host: BrokerHost) -> None:
        session = host.session
        if host.is_up and session is not None:
            with self._fault("expire the session of", host.name):
                await session.expire()

    async def _disconnect(self, host: BrokerHost) -> None:
        session = host.session
        if host.broker_id not in self._busy and host.is_up and session is not None:
            with self._fault("cut off", host.name, "from the registry"):
                session.disconnect()
                await self._some_time(0.1, 2 * SESSION_TIMEOUT_S)
                if host.session is session and host.is_up:
                    session.reconnect()

    async def _depose(self, host: BrokerHost) -> None:
        """Let others lead the broker's partitions without notifying it; its own messages may still arrive."""
        others = [one.name for one in self._cluster.hosts.values() if one is not host]
        ways = [(other, host.name) for other in others]
        if self._random.random() < 0.3:
            ways += [(host.name, other) for other in others]
        with self._fault("depose", host.name, "behind its back"):
            cutting = self._tasks.create_task(self._cut(ways, (3.5, 8.0)))
            await self._some_time(0.0, 0.5)
            if host.is_up and host.session is not None:
                await host.session.expire()
            await cutting

    # -- the network -------------------------------------------------------------------------------------------------

    def _other_end(self, host: BrokerHost) -> str:
        others = [one.name for one in self._cluster.hosts.values() if one is not host]
        return self._random.choice([*others, f"client-{self._random.randint(1, 4)}"])

    async def _cut_link(self, host: BrokerHost) -> None:
        other = self._other_end(host)
        ways = [(host.name, other), (other, host.name)]
        if self._random.random() < 0.4:
            ways = [self._random.choice(ways)]
        with self._fault("cut", *(f"{one}>{another}" for one, another in ways)):
            await self._cut(ways)

    async def _isolate(self, host: BrokerHost) -> None:
        others = [one.name for one in self._cluster.hosts.values() if one is not host]
        if self._random.random() < 0.3:
            others += [f"client-{number}" for number in range(1, 5)]
        with self._fault("isolate", host.name, "from", *others):
            await self._cut([way for other in others for way in ((host.name, other), (other, host.name))])

    async def _cut(self, ways: list[tuple[str, str]], lasting_s: tuple[float, float] = (0.2, 9.0)) -> None:
        links = [self._cluster.network.link(*way) for way in ways]
        for link in links:
            link.cut()
        await self._some_time(*lasting_s)
        for link in links:
            link.heal()

    async def _delay(self, host: BrokerHost) -> None:
        other = self._other_end(host)
        with self._fault("slow", host.name, ">", other):
            self._cluster.network.delay(host.name, other, SLOW_S)
            await self._some_time(0.5, 5.0)
            self._cluster.network.delay(host.name, other, QUICK_S)

    async def _reset(self, host: BrokerHost) -> None:
        other = self._other_end(host)
        with self._fault("reset connections", host.name, other):
            self._cluster.network.reset(host.name, other)

    # -- clocks ------------------------------------------------------------------------------------------------------

    async def _jump(self, host: BrokerHost) -> None:
        jump_ms = self._random.randint(-JUMP_MS, JUMP_MS)
        with self._fault("clock of", host.name, "jumps by", jump_ms, "ms"):
            host.set_clock(host.clock_offset_ms + jump_ms)

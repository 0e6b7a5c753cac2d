"""The kinds of faults of a run. When they happen is in `fault_schedule.py`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from support.simulation.broker_host import BrokerHost
from support.simulation.cluster import SESSION_TIMEOUT_S, NotInTimeError, SimulatedCluster
from support.simulation.disk import QUICK_DISK_S
from support.simulation.fault_schedule import FaultSchedule, Kind
from support.simulation.link import QUICK_S
from support.simulation.suspicion import Suspicion

CALM_S = SESSION_TIMEOUT_S
"""After so long without any fault the registry, the controller and the brokers agree on who is in sync."""
SLOW_S = (0.05, 1.2)
SLOW_DISK_S = (0.05, 0.8)
JUMP_MS = 3_600_000
DRIFT_MS = (-150, 200)
"""What a clock that drifts goes wrong by in a tenth of a second."""


class Faults(FaultSchedule):
    """Faults of processes, machines, disks, clocks, links and registry sessions, and reassignments among them."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        rng: random.Random,
        suspicion: Suspicion,
        *,
        is_in_sync: Callable[[], bool],
        is_always_synced: bool,
        reassign: Callable[[], Awaitable[None]],
    ) -> None:
        """is_in_sync: whether every replica is in its ISR. reassign: starts to move a partition."""
        super().__init__(cluster, rng, suspicion, is_always_synced=is_always_synced)
        self._is_in_sync = is_in_sync
        self._reassign_one = reassign

    def kinds(self) -> list[Kind]:
        """See FaultSchedule."""
        return [
            Kind(5, self._kill, needs_others=True),
            Kind(3, self._kill_in_a_write, needs_others=True),
            Kind(3, self._stop, needs_others=True),
            Kind(5, self._pause, needs_others=True),
            Kind(3, self._expire, needs_others=True),
            Kind(3, self._disconnect, needs_others=True),
            Kind(4, self._depose, needs_others=True),
            Kind(3, self._two_controllers, needs_others=True),
            Kind(5, self._cut_link, needs_others=True),
            Kind(4, self._isolate, needs_others=True),
            Kind(3, self._delay, needs_others=True),
            Kind(4, self._overtake, needs_others=True),
            Kind(3, self._repeat, needs_others=False),
            Kind(5, self._reset, needs_others=False),
            Kind(3, self._slow_disk, needs_others=True),
            Kind(4, self._fail_directory, needs_others=True),
            Kind(2, self._jump, needs_others=False),
            Kind(2, self._drift, needs_others=False),
            Kind(1, self._kill_all, needs_others=True),
            Kind(4, self._cut_power, needs_others=False),
            Kind(1, self._cut_all_power, needs_others=False),
            Kind(5, self._reassign, needs_others=False),
        ]

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

    async def _kill_in_a_write(self, host: BrokerHost) -> None:
        """Kill a broker in one of its next writes to the disk: a part of that is in the file."""
        with self._alone(host) as is_alone:
            if is_alone:
                with self._fault("kill", host.name, "in a write"):
                    host.kill_in_a_write(self._random.randint(1, 40))
                    await self._some_time(0.2, 3.0)
                    host.kill()
                    await self._restart(host)

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

    # -- disks -------------------------------------------------------------------------------------------------------

    async def _slow_disk(self, host: BrokerHost) -> None:
        with self._fault("slow disk of", host.name):
            disk = host.disk
            disk.faults.blocking_s = SLOW_DISK_S
            await self._some_time(0.5, 6.0)
            disk.faults.blocking_s = QUICK_DISK_S

    async def _fail_directory(self, host: BrokerHost) -> None:
        """Let a log directory fail until the broker is restarted; a broker with one directory would end."""
        with self._alone(host) as is_alone:
            if is_alone and len(host.log_dirs) > 1:
                directory = self._random.choice(host.log_dirs)
                with self._fault("log directory", directory.name, "of", host.name, "fails"):
                    disk = host.disk
                    disk.faults.broken.add(str(directory))
                    await self._some_time(0.1, 6.0)
                    if self._random.random() < 0.5:
                        await host.stop()
                    else:
                        host.kill()
                    disk.faults.broken.clear()
                    await self._restart(host)

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

    async def _two_controllers(self, _: BrokerHost) -> None:
        """Elect another controller while the one before does not hear of it, and goes on."""
        controller = self._cluster.controller_id()
        host = None if controller is None else self._cluster.hosts[controller]
        if host is None or host.broker_id in self._busy or not host.is_up or not self._may_fail(host):
            return
        session = host.session
        assert session is not None
        with self._fault("another controller than", host.name):
            session.lag_s = self._random.uniform(0.5, 6.0)
            await session.expire()
            await self._some_time(0.5, 6.0)
            session.lag_s = 0.0

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

    async def _overtake(self, host: BrokerHost) -> None:
        """Hold what is sent on connections that are open: it comes after what is sent later on others."""
        ways = [(host.name, self._other_end(host)), (self._other_end(host), host.name)]
        source, target = self._random.choice(ways)
        with self._fault("held:", source, ">", target):
            pipes = self._cluster.network.pipes(source, target)
            for pipe in pipes:
                pipe.hold()
            await self._some_time(0.1, 8.0)
            for pipe in pipes:
                pipe.release()

    async def _repeat(self, host: BrokerHost) -> None:
        """Let everything that was sent on a connection arrive a second time, on another one."""
        with self._fault("a connection to", host.name, "is repeated"):
            await self._cluster.network.repeat(self._other_end(host), host.name)

    async def _reset(self, host: BrokerHost) -> None:
        other = self._other_end(host)
        with self._fault("reset connections", host.name, other):
            self._cluster.network.reset(host.name, other)

    # -- clocks ------------------------------------------------------------------------------------------------------

    async def _jump(self, host: BrokerHost) -> None:
        jump_ms = self._random.randint(-JUMP_MS, JUMP_MS)
        with self._fault("clock of", host.name, "jumps by", jump_ms, "ms"):
            host.set_clock(host.clock_offset_ms + jump_ms)

    async def _drift(self, host: BrokerHost) -> None:
        with self._fault("clock of", host.name, "drifts"):
            for _ in range(self._random.randint(5, 40)):
                host.set_clock(host.clock_offset_ms + self._random.randint(*DRIFT_MS))
                await asyncio.sleep(0.1)

    # -- administration ----------------------------------------------------------------------------------------------

    async def _reassign(self, _: BrokerHost) -> None:
        await self._reassign_one()

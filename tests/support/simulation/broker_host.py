"""A simulated machine with one broker: a disk, a clock, and a process that starts and stops.

Somebody looks after the broker, as systemd does: where it does not start because its old registration is still there,
it is started again until it does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from broker.broker import Broker
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from registry.embedded.store import EmbeddedStore
from storage.compaction.compactor import InlineCompactor
from support.simulation.disk import HostFileSystem
from support.simulation.network import SimulatedNetwork
from support.simulation.process import NOBODY, ProcessState, SimulatedProcess
from support.simulation.session import SimulatedSession, SimulatedStore
from support.simulation.trace import Trace

START_MS = 1_700_000_000_000
PORT = 9092
RESTART_S = 1.0


class BrokerHost:
    """One machine."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        *,
        network: SimulatedNetwork,
        store: EmbeddedStore,
        settings: dict[str, str],
        rng: random.Random,
        trace: Trace,
        log_dirs: int = 1,
        is_ready: Callable[[Broker], None] = lambda broker: None,
    ) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.broker: Broker | None = None
        """The broker of the process that runs, or is paused."""
        self.process: SimulatedProcess | None = None
        self.clock_offset_ms = 0
        self.largest_clock_offset_ms = 0
        self.failures: list[BaseException] = []
        """What ended brokers that were ready and that nobody had told to stop: a start may fail, and is tried again."""
        self._directory = directory
        self._network = network
        self._store = store
        self._settings = settings
        self._random = rng
        self._trace = trace
        self._is_ready = is_ready
        self._directories = [f"data-{number}" for number in range(log_dirs)]
        self._disks = 0
        self.disk = self._new_disk()
        self._sessions: SimulatedStore | None = None
        self._wanted = False
        self._is_up_and_running = False
        self._life: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where clients connect to."""
        return f"{self.name}:{PORT}"

    @property
    def log_dirs(self) -> list[Path]:
        """The log directories on its disk."""
        return [self.disk.root / name for name in self._directories]

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.state is ProcessState.RUNNING

    @property
    def session(self) -> SimulatedSession | None:
        """The session of the process that is there."""
        sessions = self._sessions
        return sessions.sessions[-1] if sessions is not None and sessions.sessions else None

    def now_ms(self) -> int:
        """This machine's wall clock."""
        return START_MS + self.clock_offset_ms + int(asyncio.get_running_loop().time() * 1000)

    def set_clock(self, offset_ms: int) -> None:
        """Make the wall clock jump to a distance from the time of the run."""
        self.clock_offset_ms = offset_ms
        self.largest_clock_offset_ms = max(self.largest_clock_offset_ms, offset_ms)

    def _new_disk(self) -> HostFileSystem:
        root = self._directory / f"disk-{self._disks}"
        for name in self._directories:
            (root / name).mkdir(parents=True)
        return HostFileSystem(root, self._random)

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker, and restart it when its start fails."""
        assert not self._wanted
        self._wanted = True
        self._life = asyncio.get_running_loop().create_task(self._look_after())

    async def _look_after(self) -> None:
        while self._wanted:
            process = self.process = SimulatedProcess(self.name)
            running = process.context.run(self._run, process)
            await asyncio.wait([running])
            if self.process is process:
                self._network.process_died(process, power_cut=False)
                self.disk.process_died()
                self.process = self.broker = None
            error = None if running.cancelled() else running.exception()
            self._trace.tell(self.name, "has ended", "" if error is None else f"{type(error).__name__}: {error}")
            if error is not None and self._is_up_and_running and not isinstance(error, BrokerStartError):
                self.failures.append(error)
            await asyncio.sleep(RESTART_S)

    def _run(self, process: SimulatedProcess) -> asyncio.Task[None]:
        settings = {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            "ottla.console.listener": "",
            "log.cleaner.enable": "false",
        }
        config = BrokerConfig.load(None, settings | self._settings)
        self._sessions = SimulatedStore(self._store, process, self._random)
        self.broker = Broker(
            config,
            network=self._network.of(process),
            fs=self.disk,
            store=self._sessions,  # type: ignore[arg-type]
            now_ms=self.now_ms,
            rng=random.Random(self._random.getrandbits(64)),
            new_compactor=lambda: InlineCompactor(self.disk),
        )
        self._is_up_and_running = False
        self._trace.tell(self.name, "starts")
        return asyncio.get_running_loop().create_task(self.broker.run(self._announce), context=process.context)

    def _announce(self, broker: Broker) -> None:
        self._is_up_and_running = True
        self._trace.tell(self.name, "is ready")
        self._is_ready(broker)

    async def stop(self) -> None:
        """Stop cleanly (SIGTERM), and wait for that."""
        self._wanted = False
        if self.broker is not None and self.process is not None:
            self.process.context.run(self.broker.stop)
        if self._life is not None:
            await self._life

    # -- faults ------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: the page cache survives, the kernel closes the sockets."""
        self._end(power_cut=False)

    def kill_in_a_write(self, number: int) -> None:
        """SIGKILL in a write from now on, counted from 1: a part of its bytes is written."""
        self.disk.faults.die = lambda: NOBODY.run(self.kill)
        self.disk.faults.writes_until_death = number

    def cut_power(self) -> None:
        """Cut the power: unsynced data may be lost, and nothing is sent until `power_on`."""
        self._end(power_cut=True)
        self._network.power_off(self.name)
        self._disks += 1
        self.disk = self.disk.after_power_cut(self._random.getrandbits(64), self._directory / f"disk-{self._disks}")

    def power_on(self) -> None:
        """Restore the power; the broker is not started yet."""
        self._network.power_on(self.name)

    def _end(self, *, power_cut: bool) -> None:
        self._wanted = False
        if self._life is not None:
            self._life.cancel()
            self._life = None
        process, self.process, self.broker = self.process, None, None
        if process is None:
            return
        process.kill()
        self._network.process_died(process, power_cut=power_cut)
        self.disk.process_died()
        if self.session is not None:
            self.session.disconnect()

    async def end_old_session(self) -> None:
        """What a broker does that comes back before its session has expired and can prove that it was its own."""
        if self.session is not None:
            await self.session.expire()

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self.process.pause()
        if self.session is not None:
            self.session.disconnect()

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        if self.session is not None:
            self.session.reconnect()
        asyncio.get_running_loop().resume(self.process)  # type: ignore[attr-defined]

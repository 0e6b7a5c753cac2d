"""Broker processes of one machine, and a registry if they have no ZooKeeper: `ottla broker --processes N`.

A process that ends by itself starts again, after a delay that grows while it fails. `stop` stops the brokers one at a
time, so that each hands over its partitions to the remaining ones, and then the registry. The processes have sessions
of their own: signals of the terminal reach only the supervisor. If the supervisor itself is killed, they continue, and
the locks of their directories refuse a second start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from client.wire.backoff import Backoff, Retries
from ottla.cluster.broker_child import BrokerChild
from ottla.cluster.local_cluster import STOP_TIMEOUT_S
from ottla.cluster.local_registry import KIND, LocalRegistry
from ottla.cluster.process_output import Output
from ottla.cluster.readiness import wait_ready

_LOOK_S = 0.25  # how soon the end of the registry is noticed


class Supervisor:
    """Keeps processes running, from `start` to `stop`."""

    def __init__(
        self,
        brokers: Sequence[BrokerChild],
        registry: LocalRegistry | None,
        output: Output,
        backoff: Backoff | None = None,
    ) -> None:
        """registry: not started; None if the brokers have a ZooKeeper. backoff: the delays before a restart."""
        self.brokers = brokers
        self._registry = registry
        self._output = output
        self._backoff = backoff or Backoff(200, 30_000)

    async def start(self) -> None:
        """Start all processes and wait until the brokers serve clients.

        Raises CommandError with the reason if one fails; call `stop` then, too.
        """
        if self._registry is not None:
            await self._registry.start()
        await asyncio.gather(*(broker.start() for broker in self.brokers))
        await wait_ready(self.brokers, self._registry_ended())

    async def watch(self) -> None:
        """Restart every process that ends, until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for broker in self.brokers:
                group.create_task(self._keep(broker))
            group.create_task(self._keep_registry())

    async def stop(self) -> None:
        """Stop the brokers, the last one first, then the registry. Idempotent."""
        if self._registry is not None:
            self._registry.ensure_running()  # without it, brokers cannot hand over their partitions, and try for long
        for broker in reversed(self.brokers):
            if not await broker.stop(STOP_TIMEOUT_S):
                self._output.tell(broker.name, f"did not stop within {STOP_TIMEOUT_S:.0f} s and was killed")
        if self._registry is not None:
            self._registry.close()

    def kill(self) -> None:
        """Kill the brokers at once; a running `stop`, which waits for them, continues."""
        for broker in self.brokers:
            broker.kill()

    async def _keep(self, broker: BrokerChild) -> None:
        retries = Retries(self._backoff)
        while True:
            await broker.wait()
            delay_s = retries.next_delay_s()
            self._output.tell(broker.name, f"has ended {broker.end}; it starts again in {delay_s:.1f} s")
            await asyncio.sleep(delay_s)
            await broker.start()
            if await broker.wait_ready():
                retries.succeeded()

    async def _keep_registry(self) -> None:
        if self._registry is None:
            return
        retries = Retries(self._backoff)
        while True:
            self._output.tell(KIND, f"{await self._registry_ended()}; it starts again")
            await retries.wait()
            self._registry.ensure_running()

    async def _registry_ended(self) -> str:
        """Wait until the registry has ended; return why. Without a registry, wait for ever."""
        while True:
            if self._registry is not None and not self._registry.is_running:
                return f"{KIND} has ended: {self._registry.servers[0].last_words()}"
            await asyncio.sleep(_LOOK_S)

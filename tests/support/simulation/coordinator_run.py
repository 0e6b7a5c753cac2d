"""One run of groups and transactions while their coordinators move between brokers.

Three brokers, `__consumer_offsets` and `__transaction_state` with three replicas. Besides the usual faults the broker
that is asked is struck now and then while it works on the request: killed, paused, deposed, its session expired. So
coordinators move in the middle of every step of a group and of a transaction.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace

from client.topic_partition import TopicPartition
from support.simulation.base_run import HEALED_WITHIN_S, REPLICAS, TOPIC, BaseRun
from support.simulation.cluster import SimulatedCluster
from support.simulation.fault_schedule import Kind
from support.simulation.faults import Faults
from support.simulation.group_workload import GroupWorkload
from support.simulation.ledger import BrokenPromiseError
from support.simulation.plain_client import NowhereError, PlainClient, UnansweredError
from support.simulation.trace import Trace
from support.simulation.transaction_ledger import End
from support.simulation.transaction_workload import TIMEOUT_MS, TransactionWorkload

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITIONS = 3
ENDED_WITHIN_S = TIMEOUT_MS / 1000 + 10.0
SETTINGS = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": str(REPLICAS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": str(REPLICAS),
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "leader.imbalance.check.interval.seconds": "5",
}


class CoordinatorFaults(Faults):
    """The usual faults, and faults of a broker that is processing a request."""

    strike_chance = 0.02

    def strike(self, broker_id: int) -> None:
        """A coordinator gets a request: at random, let a fault happen before it answers."""
        loop = asyncio.get_running_loop()
        if not self.is_running or self._random.random() > self.strike_chance:
            return
        fault = self._random.choice((self._kill, self._pause, self._expire, self._depose, self._stop))
        host = self._cluster.hosts[broker_id]

        def begin() -> None:
            if self.is_running and not self._waits_for_calm and self._may_fail(host):
                self._tasks.create_task(fault(host))

        loop.call_later(self._random.uniform(0.0, 0.02), begin)

    is_running = False

    def kinds(self) -> list[Kind]:
        """See Faults. What groups and transactions ask for has no number, so nobody can tell that it is repeated."""
        return [kind for kind in super().kinds() if kind.fault != self._repeat]

    async def run(self, duration_s: float) -> None:
        """See Faults.run."""
        self.is_running = True
        asyncio.get_running_loop().call_later(duration_s, self._is_over)
        await super().run(duration_s)

    def _is_over(self) -> None:
        self.is_running = False


class CoordinatorRun(BaseRun):
    """A run with groups and transactions."""

    topics = (TOPIC, OFFSETS, TRANSACTIONS)

    def __init__(self, seed: int, directory: Path, trace: Trace) -> None:
        self.random = random.Random(f"coordinators {seed}")
        is_always_synced = self.random.random() < 0.3
        settings = SETTINGS | ({"log.flush.interval.messages": "1"} if is_always_synced else {})
        self.duration_s = self.random.uniform(12.0, 25.0)
        self.trace = trace
        brokers, log_dirs = REPLICAS + (self.random.random() < 0.4), 1 + (self.random.random() < 0.4)
        super().__init__(
            SimulatedCluster(f"coordinators {seed}", directory, trace, settings, log_dirs=log_dirs),
            [TopicPartition(topic, number) for topic in self.topics for number in range(PARTITIONS)],
            brokers,
        )
        self.groups = [GroupWorkload(self.cluster, f"group-{one}", TOPIC, PARTITIONS) for one in (1, 2)]
        self.transactions = TransactionWorkload(self.cluster, TOPIC, PARTITIONS)
        self.faults = CoordinatorFaults(
            self.cluster,
            self.random,
            self.suspicion,
            is_in_sync=self.is_in_sync,
            is_always_synced=is_always_synced,
            reassign=self.reassignments.start,
        )

    @property
    def workload(self) -> SimpleNamespace:
        """The numbers of completed operations."""
        done = sum(group.ledger.acknowledged for group in self.groups)
        ended = self.transactions.ledger
        return SimpleNamespace(
            acknowledged=done + ended.count(End.COMMITTED), failed=ended.count(End.UNKNOWN) + ended.count(End.NOT_ASKED)
        )

    async def go(self) -> None:
        """Run everything. Raises the first failure."""
        await self.cluster.start(self.brokers)
        await self._create_topics()
        await self.watch_states()
        async with asyncio.TaskGroup() as tasks:
            inspecting = tasks.create_task(self.inspect())
            consuming = tasks.create_task(self.transactions.consume())
            living = [tasks.create_task(group.live(self._client())) for group in self.groups for _ in range(3)]
            living += [
                tasks.create_task(self.transactions.produce(self._client(), f"producer-{one}")) for one in (1, 2, 3)
            ]
            await self.faults.run(self.duration_s)
            self._agree_on_the_time()
            self.trace.tell("everything is mended")
            for workload in (*self.groups, self.transactions):
                workload.stop()
            await asyncio.wait(living)
            await self.cluster.until(self.is_in_sync, "all replicas are in sync", HEALED_WITHIN_S)
            await self._check_everything()
            for task in (inspecting, consuming):
                task.cancel()
        self.check_hosts()

    def _client(self) -> PlainClient:
        client = PlainClient(self.cluster)
        client.strike = self.faults.strike
        return client

    async def _create_topics(self) -> None:
        await self.create_topic(PARTITIONS)
        client = PlainClient(self.cluster)
        for kind in (0, 1):
            while client.coordinator_of(kind, "any") is None:
                try:
                    await client.find(kind, "any")
                except (NowhereError, UnansweredError):
                    await client.pause()
        await self.cluster.until(self.is_in_sync, "the topics have leaders")

    def _agree_on_the_time(self) -> None:
        """Set all clocks to the latest that was ever shown: no transaction has begun later, so each times out."""
        hosts = self.cluster.hosts.values()
        latest = max(host.largest_clock_offset_ms for host in hosts)
        for host in hosts:
            host.set_clock(latest)

    async def _check_everything(self) -> None:
        client = PlainClient(self.cluster)
        loop = asyncio.get_running_loop()
        end = loop.time() + ENDED_WITHIN_S
        while not await self.transactions.all_have_ended(client):
            if loop.time() > end:
                raise BrokenPromiseError("a transaction is open, and does not time out")
            await asyncio.sleep(0.2)
        await self.transactions.check(client)
        for group in self.groups:
            await group.check_offsets(client)
        await self.cluster.until(self.inspection.are_equal, "all replicas are equal", HEALED_WITHIN_S)
        self.inspection.look()
        self.inspection.compare_whole_logs()

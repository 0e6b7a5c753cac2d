"""A cluster whose brokers restart with other settings, one after the other, while clients of librdkafka go on.

Nothing that was acknowledged is lost, nothing of an idempotent producer is there twice, transactions are committed, and
whichever broker is down, records are acknowledged, a group reads on, and transactions commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer

from broker.settings.checks import ACL_AUTHORIZER
from ottla.cluster.ports import free_ports
from support.acknowledged import Load, Reader, check_kept, partitions_of
from support.cluster import BrokerCluster, Servers
from support.cluster_security import PLAINTEXT, SCRAM_OVER_TLS, ClusterSecurity
from support.deadlines import DEADLINE_S
from support.polling import until
from support.pulse import Pulse, give_up

BROKERS = (0, 1, 2)
TOPICS = {"t": 3}
TRANSACTIONAL = {"moves": 2}
SOME = 50
"""Records that each producer gets acknowledged while a broker is down, and when it is back."""
SESSION_MS = 10_000
"""Of the group: shorter than a wait, because a consumer that hangs is a member until its session is over."""
REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "min.insync.replicas": "2",
    "controlled.shutdown.retry.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
}


class ChangingCluster(BrokerCluster):
    """Brokers that have a port for each of two protocols. `security` is what clients use."""

    def __init__(self, tmp_path: Path, zookeeper: Servers | None = None, *, has_authorizer: bool = False) -> None:
        """zookeeper: see BrokerCluster. has_authorizer: from the start; both users of brokers are super users."""
        super().__init__(tmp_path, REPLICATED, zookeeper)
        self.has_authorizer = has_authorizer
        self.secured = ClusterSecurity(SCRAM_OVER_TLS, tmp_path / "stores")
        ports = free_ports(2 * len(BROKERS))
        self._ports = {PLAINTEXT: ports[::2], self.secured.protocol: ports[1::2]}

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        """See BrokerCluster.settings_of: before the change."""
        acls = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": f"User:ANONYMOUS;{self.secured.principal}"}
        return self.listening(broker_id, PLAINTEXT) | (acls if self.has_authorizer else {})

    def listening(self, broker_id: int, *protocols: str) -> dict[str, str]:
        """Listeners of these protocols."""
        return {"listeners": ",".join(f"{one}://127.0.0.1:{self._ports[one][broker_id]}" for one in protocols)}

    def bootstrap(self, *broker_ids: int) -> str:
        """See BrokerCluster.bootstrap."""
        return self.servers(self.security, *broker_ids)

    def servers(self, security: ClusterSecurity, *broker_ids: int) -> str:
        """The addresses for clients of one kind."""
        return ",".join(f"127.0.0.1:{self._ports[security.protocol][one]}" for one in broker_ids or BROKERS)

    def load(self, name: str, security: ClusterSecurity) -> Load:
        """Start a producer."""
        return Load(name, self.servers(security), TOPICS, 0, pause_s=0.05, **security.of_librdkafka())


class Member:
    """A member of the group `readers`, in a thread of its own, and what it has read: names and numbers."""

    def __init__(self, servers: str, security: ClusterSecurity) -> None:
        own = {"group.id": "readers", "auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS, "log_level": 0}
        self._settings = {"bootstrap.servers": servers, **own, **security.of_librdkafka()}
        self.found: set[tuple[str, int]] = set()
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            pulse = Pulse()
            consumer = Consumer(self._settings | pulse.settings)
            consumer.subscribe([*TOPICS])
            while not self._stopping.is_set() and not pulse.has_stopped:
                self._take(consumer.consume(1000, 0.1))
            if pulse.has_stopped:
                give_up(consumer)  # the group gives its partitions to the next one when its session is over
            else:
                consumer.close()

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            if message.error() is None:
                name, number, _ = message.value().split(b":")
                self.found.add((name.decode(), int(number)))
            elif not message.error().retriable():
                self.errors.append(str(message.error()))

    def close(self) -> None:
        """Commit, leave the group, and wait for both."""
        self._stopping.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


class Change:
    """The change, and the clients that must not notice it: see the module's text."""

    def __init__(self, cluster: ChangingCluster) -> None:
        self.cluster = cluster
        self.loads = {"old": cluster.load("old", cluster.security)}
        self.finished: list[Load] = []
        self.member = Member(cluster.bootstrap(), cluster.security)
        self._found: set[tuple[str, int]] = set()
        self.moves = 0
        self._before = {broker_id: dict(process.overrides) for broker_id, process in cluster.brokers.items()}

    async def roll(self, settings: dict[str, str], *protocols: str) -> None:
        """Restart one broker after the other with these settings and listeners instead of those of the step before."""
        for broker_id in BROKERS:
            await self.cluster.stop(broker_id)
            await self.goes_on()
            process = self.cluster.brokers[broker_id]
            process.overrides = self._before[broker_id] | self.cluster.listening(broker_id, *protocols) | settings
            await asyncio.to_thread(process.launch)
            await asyncio.to_thread(process.wait_ready)
            await self.all_are_in_sync()
            await self.goes_on()

    async def goes_on(self) -> None:
        """Each producer gets records acknowledged, the group reads, and a transaction is committed."""
        wanted = {name: load.count + SOME for name, load in self.loads.items()}
        read = len(self.member.found) + SOME

        def holds() -> bool:
            assert not self.member.errors, self.member.errors[:3]
            for load in self.loads.values():
                assert not load.errors, load.errors[:3]
            return all(load.count >= wanted[name] for name, load in self.loads.items())

        await until(holds, "records are acknowledged")
        await until(lambda: len(self.member.found) >= read, "the group reads on")
        await asyncio.to_thread(self.commit_a_transaction)

    async def all_are_in_sync(self) -> None:
        """Every partition of the cluster is."""

        async def holds() -> bool:
            registry = self.cluster.registry
            for topic in await registry.children("/brokers/topics"):
                for partition in await registry.children(f"/brokers/topics/{topic}/partitions"):
                    if len((await self.cluster.state(topic, int(partition))).get("isr", ())) < len(BROKERS):
                        return False
            return True

        await until(holds, "all are in sync")

    def commit_a_transaction(self) -> None:
        """One record in each of two partitions, by another producer with the same id each time."""
        security = self.cluster.security
        own = {"bootstrap.servers": self.cluster.bootstrap(), "transactional.id": "mover", "log_level": 0}
        producer = Producer(own | security.of_librdkafka())
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for partition in range(TRANSACTIONAL["moves"]):
            producer.produce("moves", b"move:%d:" % self.moves, partition=partition)
        producer.commit_transaction(DEADLINE_S)
        self.moves += 1

    async def move_clients(self, name: str, security: ClusterSecurity) -> None:
        """The producer and the member of the group are replaced by others, which connect in another way."""
        cluster = self.cluster
        cluster.security = security
        ((former, _),) = self.loads.items()
        self.loads[name] = cluster.load(name, cluster.security)
        await asyncio.to_thread(self.member.close)
        self._found |= self.member.found
        self.member = Member(cluster.bootstrap(), cluster.security)
        await self.goes_on()
        old = self.loads.pop(former)
        await asyncio.to_thread(old.finish)
        self.finished.append(old)

    async def check(self) -> None:
        """See the module's text."""
        (load,) = self.loads.values()
        await asyncio.to_thread(load.finish)
        loads = [*self.finished, load]
        reader = self.reader(TOPICS)
        check_kept(reader, loads, lambda load, where: load.acknowledged[where])
        there = {one for found in reader.found.values() for one in found.values()}
        for load in loads:
            for where, sent in load.sent.items():
                lost = sorted(number for number in sent if (load.name, number) not in there)
                assert not lost, f"{where}: {load.name} lost {lost}; without an offset: {sorted(load.implied[where])}"
        await until(lambda: self._found | self.member.found == there, "the group has read everything")
        moved = self.reader(TRANSACTIONAL, **{"isolation.level": "read_committed"})
        for found in moved.found.values():
            assert list(found.values()) == [("move", number) for number in range(self.moves)]

    def reader(self, topics: dict[str, int], **settings: object) -> Reader:
        """What is in these topics."""
        reader = Reader(
            self.cluster.bootstrap(),
            list(partitions_of(topics)),
            **self.cluster.security.of_librdkafka(),
            **settings,
        )
        reader.look_at_offsets()
        reader.read_on()
        reader.close()
        return reader

    def close(self) -> None:
        """Stop the clients."""
        for load in self.loads.values():
            load.stop()
        self.member.close()


@contextlib.asynccontextmanager
async def changing(cluster: ChangingCluster) -> AsyncIterator[tuple[ChangingCluster, Change]]:
    """Three brokers with PLAINTEXT, and their clients."""
    try:
        await cluster.registry.start()
        await cluster.start(*BROKERS)
        for topic, partitions in {**TOPICS, **TRANSACTIONAL}.items():
            await cluster.create_topic(
                topic, {one: [(one + place) % 3 for place in BROKERS] for one in range(partitions)}
            )
        await cluster.secured.prepare(cluster.registry)  # the user of the brokers
        change = Change(cluster)
        try:
            await change.goes_on()  # the internal topics are created while all brokers are there
            yield cluster, change
        finally:
            change.close()
    finally:
        await cluster.close()

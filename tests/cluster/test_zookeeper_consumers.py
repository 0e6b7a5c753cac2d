"""Processes that share a topic by ZooKeeper, and what may befall them: nothing is skipped, and owners are never two."""

import asyncio
import contextlib
import signal

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from registry.znodes.consumers import ConsumerOwnerZnode
from registry.znodes.legacy07 import LegacyPartitionOwnerZnode
from support.cluster_security import PLAINTEXT, with_security
from support.polling import until
from support.zookeeper import proxied
from support.zookeeper_consumers import (
    CLAIM,
    LOST,
    RECORD,
    RELEASE,
    ConsumerProcess,
    Entry,
    OwnerWatch,
    check_entries,
    check_journals,
    offsets_read,
)

TOPIC = "orders"
SOCKET = "zookeeper.clientCnxnSocket"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(4)]
GROUP = "judges"


class Feeder:
    """Produces to all partitions, a few hundred records a second, until it is stopped."""

    def __init__(self, options):
        self._options = options
        self.count = dict.fromkeys(PARTITIONS, 0)
        self._stop = asyncio.Event()

    async def run(self):
        async with Producer(**self._options) as producer:
            while not self._stop.is_set():
                sent = (producer.send(TOPIC, b"%d" % self.count[one], partition=one.partition) for one in PARTITIONS)
                await asyncio.gather(*sent)
                for partition in PARTITIONS:
                    self.count[partition] += 1
                await asyncio.sleep(0.005)

    def stop(self):
        self._stop.set()


def of_consumers(settings):
    """The options of a `ZooKeeperConsumer` for settings of a broker about ZooKeeper."""
    named = {name.removeprefix("ottla.").replace(".", "_"): settings[name] for name in settings.keys() - {SOCKET}}
    return {name: value == "true" or value for name, value in named.items()}


class Scene:
    """A cluster, consumers as processes, a load, and an eye on the owners."""

    def __init__(self, cluster, tmp_path, stack):
        self.cluster = cluster
        self.consumers = []
        self._tmp_path = tmp_path
        self._stack = stack

    def start(self, *names, **options):
        made = []
        for name in names:
            process = ConsumerProcess(
                self._tmp_path / name,
                {TOPIC: 1},
                **{
                    "group_id": GROUP,
                    "zookeeper_connect": self.cluster.connect,
                    "consumer_id": name,
                    "auto_offset_reset": "smallest",
                    "auto_commit_interval_ms": 200,
                    "zookeeper_session_timeout_ms": 2_000,
                    "rebalance_backoff_ms": 500,
                    "rebalance_max_retries": 20,
                    "socket_timeout_ms": 5_000,
                    **self.cluster.security.of_clients(),
                    **of_consumers(self.cluster.zookeeper_settings),
                    **options,
                },
            )
            made.append(self._stack.enter_context(process))
        self.consumers += made
        return made

    async def settled(self, *shares):
        """Wait until these consumers own so many partitions, by their own words, and have been handed records since."""
        for process, share in shares:
            await until(lambda process=process, share=share: len(process.owned()) == share, f"{share} each")

    async def drained(self, feeder):
        """Wait until everything that was produced has been read."""

        def is_read():
            found = offsets_read(self.consumers)
            return all(found[partition] >= set(range(feeder.count[partition])) for partition in PARTITIONS)

        await until(is_read, "everything is read")


@contextlib.asynccontextmanager
async def scene(start_cluster, tmp_path, brokers=1, replicas=1, **settings):
    async with start_cluster(brokers, offsets_topic_replication_factor=str(replicas), **settings) as cluster:
        async with Admin(**cluster.options()) as admin:
            await admin.create_topic(TOPIC, partitions=4, replication_factor=replicas)
        with contextlib.ExitStack() as stack:
            yield Scene(cluster, tmp_path, stack)


@contextlib.asynccontextmanager
async def under_load(scene, path=ConsumerOwnerZnode.path):
    """Produce and watch during the block; then everything must have been read, by the rules. `twice` is noted."""
    feeder = Feeder(scene.cluster.options())
    async with OwnerWatch(scene.cluster.registry, GROUP, PARTITIONS, path) as watch:
        load = asyncio.create_task(feeder.run())
        try:
            yield watch
        finally:
            feeder.stop()
            await load
        await scene.drained(feeder)
    scene.twice = check_journals(scene.consumers)
    assert watch.check(scene.consumers) > 100


async def records_since(process, count):
    """Wait until a consumer has been handed so many more records."""

    before = process.count(RECORD)
    await until(lambda: process.count(RECORD) >= before + count, f"{count} records more")


@with_security(PLAINTEXT)
async def test_consumers_that_join_and_leave(start_cluster, tmp_path):
    async with scene(start_cluster, tmp_path) as stage:
        async with under_load(stage) as watch:
            lasting = {"zookeeper_session_timeout_ms": 20_000}  # so that no pause of the machine ends a session
            (one,) = stage.start("one", **lasting)
            await stage.settled((one, 4))
            await records_since(one, 50)
            two, three = stage.start("two", "three", **lasting)
            await stage.settled((one, 2), (three, 1), (two, 1))  # in the order of the names
            for process in (one, two, three):
                await records_since(process, 50)
            await one.end()
            await stage.settled((two, 2), (three, 2))
            await records_since(two, 50)
        assert stage.twice == 0
        assert watch.owners(PARTITIONS[0])[0] == f"{GROUP}_one-0"
        for process in (two, three):
            await process.end()
        assert await stage.cluster.registry.children(f"/consumers/{GROUP}/ids") == []


@with_security(PLAINTEXT)
async def test_a_killed_consumer(start_cluster, tmp_path):
    async with scene(start_cluster, tmp_path) as stage, under_load(stage):
        one, two = stage.start("one", "two")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)
        await one.end(signal.SIGKILL)
        await stage.settled((two, 4))
        await records_since(two, 50)


@with_security(PLAINTEXT)
async def test_a_killed_broker(start_cluster, tmp_path):
    async with scene(start_cluster, tmp_path, brokers=3, replicas=2) as stage, under_load(stage):
        one, two = stage.start("one", "two", offsets_storage="kafka")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)
        await stage.cluster.kill_and_expire(1)
        for process in (one, two):
            await records_since(process, 50)
        await until(lambda: one.count(CLAIM) > 2, "a rebalance")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)


@with_security(PLAINTEXT)
async def test_a_killed_broker_and_its_return_in_the_layout_of_0_7(start_cluster, tmp_path):
    """Partitions change their leaders, and so their names in the group's tree, while two consumers read them."""

    def lock(*partition):
        return f"/kafka07{LegacyPartitionOwnerZnode.path(*partition)}"

    view = {"ottla_zookeeper_legacy07_chroot": "/kafka07"}
    async with scene(start_cluster, tmp_path, brokers=3, replicas=2, **view) as stage, under_load(stage, lock):
        registry = stage.cluster.registry
        one, two = stage.start("one", "two", layout="0.7", zookeeper_connect=f"{stage.cluster.connect}/kafka07")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)
        owned = set(await registry.children(f"/kafka07/consumers/{GROUP}/owners/{TOPIC}"))
        await stage.cluster.kill(1)

        async def have_other_names():
            now = set(await registry.children(f"/kafka07/consumers/{GROUP}/owners/{TOPIC}"))
            return len(now) == 4 and now != owned and not any(name.startswith("1-") for name in now)

        await until(have_other_names, "the names without broker 1 are owned")
        for process in (one, two):
            await records_since(process, 50)
        await stage.cluster.start(1)
        async with Admin(**stage.cluster.options()) as admin:
            await until(lambda: in_sync(stage.cluster, 2), "broker 1 is in sync")
            await admin.elect_leaders()

        async def have_the_names_of_before():
            return set(await registry.children(f"/kafka07/consumers/{GROUP}/owners/{TOPIC}")) == owned

        await until(have_the_names_of_before, "the names of before are owned")
        for process in (one, two):
            await records_since(process, 50)


async def in_sync(cluster, replicas):
    """Whether every partition has so many replicas in sync."""
    states = [await cluster.state(TOPIC, number) for number in range(4)]
    return all(len(state["isr"]) == replicas for state in states)


@with_security(PLAINTEXT)
async def test_a_session_that_expires(start_cluster, tmp_path):
    """ZooKeeper tells the owner and the others at the same time, and promises nothing about who hears it first: here
    the owner does, the other consumer is stopped meanwhile.
    """
    async with scene(start_cluster, tmp_path) as stage, under_load(stage):
        one, two = stage.start("one", "two", zookeeper_session_timeout_ms=20_000)
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)
        claims = one.count(CLAIM)
        await two.pause()
        await stage.cluster.end_session(one.credentials())
        await until(lambda: one.count(LOST), "its partitions are lost")
        await two.resume()
        await until(lambda: one.count(CLAIM) >= claims + 2, "it is back")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)


@with_security(PLAINTEXT)
async def test_a_consumer_that_sleeps_for_longer_than_its_session(start_cluster, tmp_path):
    async with scene(start_cluster, tmp_path) as stage, under_load(stage):
        one, two = stage.start("one", "two")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)
        await one.pause()
        await stage.settled((two, 4))
        await records_since(two, 200)
        await one.resume()
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)


@with_security(PLAINTEXT)
async def test_a_consumer_that_is_cut_off_from_zookeeper(start_cluster, tmp_path):
    async with (
        scene(start_cluster, tmp_path) as stage,
        proxied(stage.cluster.connect) as (proxy, through),
        under_load(stage),
    ):
        (one,) = stage.start("one", zookeeper_connect=through)
        (two,) = stage.start("two")
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)
        proxy.stall()
        await until(lambda: len(two.owned()) == 4, "the other has all")
        await records_since(two, 200)
        proxy.drop()
        await stage.settled((one, 2), (two, 2))
        for process in (one, two):
            await records_since(process, 50)


# ---- the checker itself


def entries(*lines):
    """Entries from texts such as "a claims", "a 3", "a releases"."""
    kinds = {"claims": CLAIM, "releases": RELEASE}
    found = []
    for time_ns, line in enumerate(lines):
        name, what = line.split()
        found.append(Entry(time_ns, name, kinds.get(what, RECORD), PARTITIONS[0], what))
    return found


@pytest.mark.parametrize(
    ("lines", "twice"),
    [
        (["a claims", "a 0", "a 1", "a releases", "b claims", "b 2"], 0),
        (["a claims", "a 0", "a 1", "b claims", "b 0", "b 1", "b 2"], 2),
    ],
)
def test_journals_that_follow_the_rules_pass(lines, twice):
    assert check_entries(entries(*lines)) == twice


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a claims", "a 0", "b claims", "a 1"], "two owners"),
        (["a claims", "a 0", "b claims", "b 1", "a 2"], "two owners"),
        (["a 0"], "two owners"),
        (["a claims", "a 1"], "skipped"),
        (["a claims", "a 0", "b claims", "b 2"], "skipped"),
        (["a claims", "a 0", "a 2"], "a gap"),
        (["a claims", "a 0", "a 0"], "a gap"),
    ],
)
def test_journals_that_break_a_rule_are_refused(lines, said):
    with pytest.raises(AssertionError, match=said):
        check_entries(entries(*lines))

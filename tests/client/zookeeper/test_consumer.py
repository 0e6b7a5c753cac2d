"""The ZooKeeper consumer on a real ZooKeeper, against our broker."""

import asyncio
import contextlib
import json
import re

import pytest

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.errors import (
    ClosedError,
    ConsumerIdInUseError,
    InvalidOptionError,
    RebalanceFailedError,
    ZooKeeperSessionError,
)
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from client.zookeeper.consumer import ZooKeeperConsumer
from client.zookeeper.rebalance import ZooKeeperRebalanceListener
from client.zookeeper.topic_filter import TopicFilter
from registry.interface import ConnectionState
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.session import end_session
from support.broker import running_broker
from support.deadlines import DEADLINE_S
from support.polling import until
from support.zookeeper import heard, new_chroot, proxied, shared_zookeeper

GROUP = "judges"


class Cluster:
    """A broker with a ZooKeeper, and our own look at both."""

    def __init__(self, connect, broker, registry):
        self.connect = connect
        self.broker = broker
        self.registry = registry

    async def create(self, topic, partitions):
        async with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            await admin.create_topic(topic, partitions=partitions)

    async def produce(self, topic, partition, *values):
        async with Producer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            for value in values:
                await producer.send(topic, str(value).encode(), partition=partition)

    def consumer(self, topics=("orders",), consumer_id=None, connect=None, **options):
        return ZooKeeperConsumer(
            topics,
            zookeeper_connect=connect or self.connect,
            group_id=GROUP,
            consumer_id=consumer_id,
            **{
                "auto_offset_reset": "smallest",
                "zookeeper_session_timeout_ms": 4_000,
                "rebalance_backoff_ms": 1_000,
                **options,
            },
        )

    async def owners(self, topic="orders"):
        """The threads that own partitions, by number."""
        path = f"/consumers/{GROUP}/owners/{topic}"
        if await self.registry.exists(path) is None:
            return {}
        return {
            int(name): (await self.registry.get(f"{path}/{name}"))[0].decode()
            for name in sorted(await self.registry.children(path), key=int)
        }

    async def owned_become(self, expected, topic="orders"):
        async def become():
            with contextlib.suppress(Exception):
                return await self.owners(topic) == expected

        await until(become, f"owners {expected}")

    async def offset(self, partition, topic="orders"):
        path = f"/consumers/{GROUP}/offsets/{topic}/{partition}"
        found = await self.registry.exists(path)
        return None if found is None else int((await self.registry.get(path))[0])

    async def committed(self):
        async with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            return {str(partition): one.offset for partition, one in (await admin.list_group_offsets(GROUP)).items()}


@pytest.fixture
async def cluster(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
    await registry.start()
    async with running_broker(
        tmp_path / "data",
        zookeeper_connect=connect,
        offsets_topic_num_partitions="1",
        offsets_topic_replication_factor="1",
    ) as broker:
        yield Cluster(connect, broker, registry)
    await registry.close()


async def take(source, count):
    """So many records, as (partition, offset)."""
    async with asyncio.timeout(DEADLINE_S):
        return [(record.partition, record.offset) for record in [await anext(source) for _ in range(count)]]


@contextlib.asynccontextmanager
async def started(*consumers):
    async with contextlib.AsyncExitStack() as stack:
        for consumer in consumers:
            await stack.enter_async_context(consumer)
        yield consumers


# ---- who reads what


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        (1, {0: "c1-0", 1: "c1-0", 2: "c2-0", 3: "c3-0"}),
        (2, {0: "c1-0", 1: "c1-1", 2: "c2-0", 3: "c2-1"}),
    ],
)
async def test_three_consumers_of_four_partitions(cluster, threads, expected):
    await cluster.create("orders", 4)
    owners = {partition: f"{GROUP}_{thread}" for partition, thread in expected.items()}
    three = [cluster.consumer({"orders": threads}, f"c{number}") for number in (3, 1, 2)]
    async with started(*three):
        await cluster.owned_become(owners)
        for partition in range(4):
            await cluster.produce("orders", partition, "a", "b")
        for consumer in three:
            for number, stream in enumerate(consumer.streams["orders"]):
                mine = [p for p, thread in owners.items() if thread == f"{consumer.consumer_id}-{number}"]
                found = await take(stream, 2 * len(mine))
                assert sorted(found) == [(partition, offset) for partition in mine for offset in (0, 1)]
        await three[1].close()
        await cluster.owned_become(
            {p: f"{GROUP}_{'c2' if p < 2 else 'c3'}-{0 if threads == 1 else p % 2}" for p in range(4)}
        )
    assert await cluster.owners() == {}
    assert [await cluster.offset(partition) for partition in range(4)] == [2, 2, 2, 2]


async def test_the_registered_znodes(cluster):
    await cluster.create("orders", 1)
    await cluster.create("audit", 1)
    one = cluster.consumer({"orders": 2, "audit": 1})
    two = cluster.consumer((), "two", topic_filter=TopicFilter.white_list("ord.*,x"), threads=3)
    three = cluster.consumer((), "three", topic_filter=TopicFilter.black_list("orders"))
    path = f"/consumers/{GROUP}/ids"
    async with started(one, two, three):
        assert re.fullmatch(GROUP + r"_.+-\d{13}-[0-9a-f]{8}", one.consumer_id)
        assert sorted(await cluster.registry.children(path)) == sorted(
            [one.consumer_id, f"{GROUP}_two", f"{GROUP}_three"]
        )
        expected = {
            one: '{"version":1,"subscription":{"orders":2,"audit":1},"pattern":"static","timestamp":"T"}',
            two: '{"version":1,"subscription":{"ord.*|x":3},"pattern":"white_list","timestamp":"T"}',
            three: '{"version":1,"subscription":{"orders":1},"pattern":"black_list","timestamp":"T"}',
        }
        for consumer, text in expected.items():
            data, stat = await cluster.registry.get(f"{path}/{consumer.consumer_id}")
            assert re.sub(r'"\d{13}"', '"T"', data.decode()) == text
            assert stat.ephemeral_owner == consumer._registry.session_id
        sessions = {consumer._registry.session_id for consumer in (one, two, three)}

        async def are_owned():
            stats = [
                await cluster.registry.exists(f"/consumers/{GROUP}/owners/{topic}/0") for topic in ("orders", "audit")
            ]
            return all(stat is not None and stat.ephemeral_owner in sessions for stat in stats)

        await until(are_owned, "both topics have owners that live as long as their sessions")
    assert await cluster.registry.children(path) == []


async def test_topics_and_partitions_that_are_created_later(cluster):
    await cluster.create("orders", 1)
    named = cluster.consumer({"orders": 1, "later": 1}, "b")
    pattern = cluster.consumer((), "a", topic_filter=TopicFilter.white_list("new-.*"))
    async with started(named, pattern):
        await until(lambda: named.assignment() == [TopicPartition("orders", 0)], "what is there is read")
        assert pattern.assignment() == []
        async with Admin(bootstrap_servers=cluster.broker.bootstrap_servers) as admin:
            await admin.create_partitions("orders", 3)
        await cluster.create("later", 1)
        await cluster.create("new-1", 1)
        await cluster.owned_become(dict.fromkeys(range(3), f"{named.consumer_id}-0"))
        await cluster.owned_become({0: f"{named.consumer_id}-0"}, "later")
        await cluster.owned_become({0: f"{pattern.consumer_id}-0"}, "new-1")
        await cluster.produce("orders", 2, "x")
        assert await take(named, 1) == [(2, 0)]
        await cluster.produce("new-1", 0, "y")
        assert await take(pattern.streams["new-.*"][0], 1) == [(0, 0)]


async def test_it_waits_until_a_broker_is_registered(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
    await registry.start()
    cluster = Cluster(connect, None, registry)
    async with cluster.consumer() as consumer:
        assert consumer.assignment() == []
        async with running_broker(tmp_path / "data", zookeeper_connect=connect) as cluster.broker:
            await cluster.create("orders", 1)
            await cluster.produce("orders", 0, "x")
            assert await take(consumer, 1) == [(0, 0)]
    await registry.close()


# ---- offsets


async def test_the_committed_offset_is_that_of_processed_records(cluster):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, *range(6))
    async with cluster.consumer(auto_commit_interval_ms=20) as consumer:
        await take(consumer, 3)

        async def is_two():
            return await cluster.offset(0) == 2

        await until(is_two, "what is in hand is not committed in between")
        await consumer.commit()
        assert await cluster.offset(0) == 3
        assert consumer._partitions.positions(with_in_hand=False) == {}  # it is not taken back
        await take(consumer, 1)
    assert await cluster.offset(0) == 4
    async with cluster.consumer() as consumer:
        assert await take(consumer, 1) == [(0, 4)]
        await consumer.__aexit__(RuntimeError)  # while it works on 4
    assert await cluster.offset(0) == 4
    async with cluster.consumer(auto_commit_enable=False) as consumer:
        assert await take(consumer, 2) == [(0, 4), (0, 5)]
    assert await cluster.offset(0) == 4


async def test_a_listener_may_commit_at_the_end(cluster):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, *range(3))

    class Committing(ZooKeeperRebalanceListener):
        async def before_releasing_partitions(self, partitions):
            await consumer.commit()

    async with cluster.consumer(auto_commit_enable=False, rebalance_listener=Committing()) as consumer:
        await take(consumer, 2)
    assert await cluster.offset(0) == 2


async def test_streams_take_turns(cluster):
    await cluster.create("orders", 2)
    await cluster.produce("orders", 0, *range(200))
    await cluster.produce("orders", 1, *range(200))
    async with cluster.consumer({"orders": 2}) as consumer:
        await until(lambda: all(stream._ready for stream in consumer.streams["orders"]), "both have been fetched")
        assert {partition for partition, _ in await take(consumer, 2)} == {0, 1}


@pytest.mark.parametrize(("storage", "dual"), [("kafka", False), ("kafka", None), ("zookeeper", None)])
async def test_offsets_are_stored_where_configured(cluster, storage, dual):
    await cluster.create("orders", 2)
    await cluster.produce("orders", 1, *range(4))
    options = {"offsets_storage": storage, "dual_commit_enabled": dual}
    async with cluster.consumer(**options) as consumer:
        await take(consumer, 3)
    expected = 3 if dual is None else None
    assert await cluster.offset(1) == expected
    # What nobody has read has a position all the same, once it was looked up.
    assert (await cluster.committed()).get("orders-1") == (3 if storage == "kafka" else None)
    async with cluster.consumer(**options) as consumer:
        assert await take(consumer, 1) == [(1, 3)]


async def test_the_greater_of_two_offsets_is_used(cluster):
    await cluster.create("orders", 2)
    for partition in (0, 1):
        await cluster.produce("orders", partition, *range(6))
    await cluster.registry.create(f"/consumers/{GROUP}/offsets/orders/0", b"5", make_parents=True)
    await cluster.registry.create(f"/consumers/{GROUP}/offsets/orders/1", b"1")
    async with Admin(bootstrap_servers=cluster.broker.bootstrap_servers) as admin:
        await admin.alter_group_offsets(GROUP, {TopicPartition("orders", n): OffsetAndMetadata(3) for n in (0, 1)})
    async with cluster.consumer(offsets_storage="kafka") as consumer:
        assert sorted(await take(consumer, 4)) == [(0, 5), (1, 3), (1, 4), (1, 5)]
    assert await cluster.committed() == {"orders-0": 6, "orders-1": 6}
    assert [await cluster.offset(0), await cluster.offset(1)] == [6, 6]


async def test_where_to_start_without_an_offset(cluster):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, *range(3))
    async with cluster.consumer(auto_offset_reset="largest", consumer_id="a") as consumer:
        await until(lambda: consumer._partitions.positions(with_in_hand=True), "the end is looked up")
        await cluster.produce("orders", 0, "later")
        assert await take(consumer, 1) == [(0, 3)]
    async with cluster.consumer(auto_offset_reset="earliest") as consumer:
        await cluster.produce("orders", 0, "last")
        assert await take(consumer, 1) == [(0, 4)]
    await cluster.registry.set(f"/consumers/{GROUP}/offsets/orders/0", b"99")  # beyond the log
    async with cluster.consumer() as consumer:
        assert await take(consumer, 1) == [(0, 0)]


# ---- what may be in the way


async def test_an_owner_that_does_not_release_its_partition(cluster):
    await cluster.create("orders", 2)
    path = f"/consumers/{GROUP}/owners/orders/1"
    await cluster.registry.create(path, b"stranger-0", make_parents=True)
    with pytest.raises(RebalanceFailedError, match=f"in 2 attempts: 1 partitions.*{path}"):
        await cluster.consumer(rebalance_max_retries=1, rebalance_backoff_ms=10).start()
    assert await cluster.owners() == {1: "stranger-0"}
    consumer = cluster.consumer(rebalance_backoff_ms=3_600_000)
    starting = asyncio.create_task(consumer.start())
    await until(lambda: consumer._rebalancer.count, "it has tried")
    await cluster.registry.delete(path)
    async with asyncio.timeout(DEADLINE_S):  # long before the backoff is over
        await starting
    assert len(await cluster.owners()) == 2
    await consumer.close()


async def test_a_failed_rebalance_is_reported_and_retried(cluster):
    await cluster.create("orders", 1)
    async with cluster.consumer(rebalance_max_retries=0, rebalance_backoff_ms=50) as consumer:
        await cluster.registry.create(f"/consumers/{GROUP}/ids/broken", b"{", make_parents=True)
        with pytest.raises(RebalanceFailedError, match="ids/broken: must be JSON"):
            await take(consumer, 1)
        await cluster.registry.delete(f"/consumers/{GROUP}/ids/broken")
        await cluster.produce("orders", 0, "x")
        while True:
            with contextlib.suppress(RebalanceFailedError):
                assert await take(consumer, 1) == [(0, 0)]
                break


async def test_a_consumer_id_in_use(cluster):
    await cluster.create("orders", 1)
    async with cluster.consumer(consumer_id="one"):
        with pytest.raises(ConsumerIdInUseError, match=f"{GROUP}_one"):
            await cluster.consumer(consumer_id="one", zookeeper_session_timeout_ms=500).start()


async def test_a_deleted_registration_is_recreated(cluster):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, "x")
    async with cluster.consumer(consumer_id="one") as consumer:
        await cluster.registry.delete(f"/consumers/{GROUP}/ids/{consumer.consumer_id}")
        await cluster.owned_become({0: f"{GROUP}_one-0"})

        async def is_back():
            return await cluster.registry.children(f"/consumers/{GROUP}/ids") == [consumer.consumer_id]

        await until(is_back, "registered again")
        assert await take(consumer, 1) == [(0, 0)]


# ---- the session


class Listener(ZooKeeperRebalanceListener):
    def __init__(self):
        self.heard = []

    async def before_starting_fetchers(self, partitions):
        self.heard.append(("started", [str(partition) for partition in partitions]))

    async def before_releasing_partitions(self, partitions):
        self.heard.append(("released", [str(partition) for partition in partitions]))

    async def partitions_lost(self, partitions):
        self.heard.append(("lost", [str(partition) for partition in partitions]))


async def test_a_session_that_expires(cluster):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, *range(4))

    class Observer(Listener):
        async def partitions_lost(self, partitions):
            await super().partitions_lost(partitions)
            self.heard.append((consumer.is_reading, consumer.assignment()))

    listener = Observer()
    async with cluster.consumer(rebalance_listener=listener) as consumer:
        await take(consumer, 1)
        await consumer.commit()
        await take(consumer, 1)
        async with heard(consumer._registry, ConnectionState.EXPIRED):
            assert await end_session(ZooKeeperAddress.parse(cluster.connect), consumer._registry.credentials, 10_000)
        # Nothing could be committed: the record after the commit comes again.
        assert await take(consumer, 3) == [(0, 1), (0, 2), (0, 3)]
        _, stat = await cluster.registry.get(f"/consumers/{GROUP}/owners/orders/0")
        assert stat.ephemeral_owner == consumer._registry.session_id
    one = ["orders-0"]
    assert listener.heard == [("started", one), ("lost", one), (False, []), ("started", one), ("released", one)]


async def test_a_session_that_expires_between_claim_and_start(cluster):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, "x")
    claimed, go_on = asyncio.Event(), asyncio.Event()

    class Slow(ZooKeeperRebalanceListener):
        async def before_starting_fetchers(self, partitions):
            claimed.set()
            await go_on.wait()

    consumer = cluster.consumer(rebalance_listener=Slow())
    starting = asyncio.create_task(consumer.start())
    await claimed.wait()
    async with heard(consumer._registry, ConnectionState.EXPIRED):
        assert await end_session(ZooKeeperAddress.parse(cluster.connect), consumer._registry.credentials, 10_000)
    go_on.set()
    await starting
    assert await take(consumer, 1) == [(0, 0)]
    _, stat = await cluster.registry.get(f"/consumers/{GROUP}/owners/orders/0")
    assert stat.ephemeral_owner == consumer._registry.session_id
    await consumer.close()


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
async def test_a_disconnected_consumer_stops_before_its_session_can_expire(cluster, storage):
    await cluster.create("orders", 1)
    await cluster.produce("orders", 0, *range(3))
    async with proxied(cluster.connect) as (proxy, through):
        options = {"auto_commit_enable": False, "offsets_storage": storage, "dual_commit_enabled": False}
        async with cluster.consumer(connect=through, **options) as consumer:
            await take(consumer, 1)
            read_on = []
            owner = f"/consumers/{GROUP}/owners/orders/0"
            watch = cluster.registry.watch_data(owner, lambda: read_on.append(consumer.is_reading))
            await cluster.registry.exists(owner)
            read_on.clear()
            proxy.stall()
            await until(lambda: not consumer._lease.is_valid, "the lease ends")
            assert not consumer.is_reading
            assert consumer.streams["orders"][0].take() is None
            if storage == "kafka":
                with pytest.raises(ZooKeeperSessionError, match="no connection to ZooKeeper"):
                    await consumer.commit()
            await until(lambda: read_on, "the session ends on the servers")
            assert read_on == [False]
            watch.cancel()
            assert consumer.assignment() != []  # nobody has told it
            async with heard(consumer._registry, ConnectionState.CONNECTED):
                proxy.drop()
            assert await take(consumer, 2) == [(0, 0), (0, 1)]  # in a new session, as nothing was committed


async def test_a_missing_chroot():
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    consumer = ZooKeeperConsumer("orders", group_id="g", zookeeper_connect=connect)
    with pytest.raises(ZooKeeperSessionError, match="no node for the chroot of " + connect):
        await consumer.start()


async def test_no_zookeeper():
    consumer = ZooKeeperConsumer(
        "orders", group_id="g", zookeeper_connect="127.0.0.1:1", zookeeper_connection_timeout_ms=100
    )
    with pytest.raises(ZooKeeperSessionError, match=r"127\.0\.0\.1:1"):
        async with consumer:
            pass


# ---- small things


async def test_streams_end_when_the_consumer_is_closed(cluster):
    await cluster.create("orders", 1)
    consumer = cluster.consumer()
    await consumer.start()
    tasks = [asyncio.create_task(anext(one, None)) for one in (consumer, consumer.streams["orders"][0])]
    await asyncio.sleep(0)
    await consumer.close()
    assert await asyncio.gather(*tasks) == [None, None]
    with pytest.raises(ClosedError):
        await consumer.commit()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": {}}, "topics or a topic_filter"),
        ({"topic_filter": TopicFilter.white_list("a")}, "topics or a topic_filter"),
        ({"topics": {"a": 0}}, "threads=0"),
        ({"group_id": "a/b"}, "group_id='a/b'"),
        ({"consumer_id": "é"}, "consumer_id"),
        ({"auto_offset_reset": "none"}, "smallest, largest"),
        ({"offsets_storage": "disk"}, "zookeeper, kafka"),
        ({"dual_commit_enabled": True}, 'needs offsets_storage="kafka"'),
        ({"zookeeper_connect": "zk:x"}, "zookeeper_connect"),
        ({"rebalance_max_retries": -1}, "at least 0"),
        ({"zookeeper_session_timeout_ms": 0}, "zookeeper_session_timeout_ms"),
    ],
)
async def test_invalid_options(options, said):
    with pytest.raises(InvalidOptionError, match=said):
        ZooKeeperConsumer(**{"topics": ["orders"], "group_id": "g", **options})


async def test_a_pattern_is_escaped_as_json_is(cluster):
    await cluster.create("a", 1)
    wanted = TopicFilter.white_list(r"a\.b|\"é")
    async with cluster.consumer((), "one", topic_filter=wanted):
        data, _ = await cluster.registry.get(f"/consumers/{GROUP}/ids/{GROUP}_one")
        assert list(json.loads(data)["subscription"]) == [wanted.text]

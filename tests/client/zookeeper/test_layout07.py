"""A group in Kafka 0.7's tree, on the view of today's cluster that brokers publish."""

import asyncio
import contextlib

import pytest

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from client.zookeeper.consumer import ZooKeeperConsumer
from client.zookeeper.layout import Legacy07Layout
from client.zookeeper.offset_nodes import Legacy07OffsetNodes
from client.zookeeper.rebalance import ZooKeeperRebalanceListener
from client.zookeeper.topic_filter import TopicFilter
from client.zookeeper.tree import WatchedTree
from registry.embedded.store import EmbeddedStore
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.session import end_session
from support.broker import running_broker
from support.deadlines import DEADLINE_S
from support.polling import until
from support.zookeeper import new_chroot, shared_zookeeper

GROUP = "group1"
TOP = f"/consumers/{GROUP}"
P0, P1, P2, P3 = (TopicPartition("topic1", number) for number in range(4))


# ---- in any registry


@pytest.fixture(params=["embedded", "zookeeper"])
async def registry(request):
    store = None
    if request.param == "embedded":
        store = await EmbeddedStore.open(None)
        registry = store.session(18_000)
    else:
        registry = ZooKeeperRegistry(ZooKeeperAddress.parse(f"{shared_zookeeper().connect}{new_chroot()}"))
    await registry.start()
    yield registry
    await registry.close()
    if store is not None:
        await store.close()


async def put(registry, path, data):
    if await registry.exists(path) is None:
        await registry.create(path, data.encode(), make_parents=True)
    else:
        await registry.set(path, data.encode())


async def publish(registry, **brokers):
    """What brokers say: for each its partitions of topic1 as text, with b before its id."""
    for broker, numbers in brokers.items():
        await put(registry, f"/brokers/topics/topic1/{broker[1:]}", str(len(numbers.split(","))))
        await put(registry, f"/brokers/partitions/topic1/{broker[1:]}", numbers)


async def tree_of(registry, path):
    """The nodes with content below a path."""
    found = {}
    with contextlib.suppress(Exception):
        for name in sorted(await registry.children(path)):
            data, _ = await registry.get(f"{path}/{name}")
            if data:
                found[f"{path}/{name}".removeprefix(f"{TOP}/")] = data.decode()
            found |= await tree_of(registry, f"{path}/{name}")
    return found


async def test_broker_partitions_are_sorted_by_name(registry):
    changed = asyncio.Event()
    tree = WatchedTree(registry, changed.set)
    layout = Legacy07Layout()
    await publish(registry, b9="1", b10="0,2")
    assert list((await layout.partitions(tree, "topic1")).items()) == [(0, "10-0"), (2, "10-1"), (1, "9-0")]
    changed.clear()
    await put(registry, "/brokers/partitions/topic1/9", "3")  # the count stays
    await asyncio.wait_for(changed.wait(), 10)
    assert await layout.partitions(tree, "topic1") == {0: "10-0", 2: "10-1", 3: "9-0"}
    tree.close()


async def test_an_incomplete_view_shows_only_certain_partitions(registry, caplog):
    tree = WatchedTree(registry, lambda: None)
    layout = Legacy07Layout()
    assert await layout.partitions(tree, "topic1") == {}
    await publish(registry, b1="0,1", b2="1,2")  # broker 1 has still to take partition 1 away
    assert await layout.partitions(tree, "topic1") == {0: "1-0", 1: "1-1", 2: "2-1"}
    await put(registry, "/brokers/partitions/topic1/1", "0")
    assert await layout.partitions(tree, "topic1") == {1: "2-0", 2: "2-1"}
    await put(registry, "/brokers/topics/topic1/3", "5")
    assert await layout.partitions(tree, "topic1") == {1: "2-0", 2: "2-1"}
    assert "/brokers/topics/topic1/3: /brokers/partitions/topic1/3 does not exist yet" in caplog.text
    tree.close()


async def test_an_offset_is_stored_under_its_broker_partition(registry):
    nodes = Legacy07OffsetNodes(registry, GROUP)
    assert await nodes.fetch({P0: "29-0", P1: "29-1"}) == {}
    await nodes.commit({P0: 5})
    await nodes.commit({P0: 17, P1: 0})
    assert await tree_of(registry, f"{TOP}/offsets") == {"offsets/topic1/29-0": "17", "offsets/topic1/29-1": "0"}
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "29-0", P1: "29-1"}) == {P0: 17, P1: 0}


async def test_an_offset_follows_its_partition_to_another_leader(registry):
    nodes = Legacy07OffsetNodes(registry, GROUP)
    await nodes.fetch({P0: "1-0", P1: "2-0", P2: "2-1"})
    await nodes.commit({P0: 100, P1: 200, P2: 300})
    moved = {P0: "2-0", P1: "2-1", P2: "2-2"}  # all are led by broker 2
    one, other = Legacy07OffsetNodes(registry, GROUP), Legacy07OffsetNodes(registry, GROUP)
    assert await one.fetch({P0: moved[P0]}) == {P0: 100}
    assert await other.fetch({P1: moved[P1], P2: moved[P2]}) == {P1: 200, P2: 300}
    await other.commit({P1: 201})
    assert await tree_of(registry, f"{TOP}/offsets") == {
        "offsets/topic1/2-0": "100", "offsets/topic1/2-1": "201", "offsets/topic1/2-2": "300",
    }  # fmt: skip
    back = Legacy07OffsetNodes(registry, GROUP)
    assert await back.fetch({P0: "1-0", P1: "2-0", P2: "2-1"}) == {P0: 100, P1: 201, P2: 300}


async def test_partitions_that_swap_names_keep_their_offsets(registry):
    nodes = Legacy07OffsetNodes(registry, GROUP)
    await nodes.fetch({P0: "1-0", P1: "2-0"})
    await nodes.commit({P0: 100, P1: 200})
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "2-0"}) == {P0: 100}
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P1: "1-0"}) == {P1: 200}


async def test_an_uncommitted_partition_does_not_get_the_offset_of_another(registry):
    nodes = Legacy07OffsetNodes(registry, GROUP)
    await nodes.fetch({P0: "1-0"})
    await nodes.commit({P0: 100})
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P1: "1-0"}) == {}


async def test_an_offset_written_by_hand_belongs_to_the_current_holder_of_the_name(registry):
    await put(registry, f"{TOP}/offsets/topic1/1-0", "42")
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "1-0"}) == {P0: 42}
    # It is the partition's from now on, though nothing has been committed.
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P1: "1-0", P0: "2-0"}) == {P0: 42}
    await put(registry, f"{TOP}/offsets/topic1/2-0", "7")
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "2-0"}) == {P0: 7}
    await registry.delete(f"{TOP}/offsets/topic1/2-0")
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "2-0"}) == {P0: 7}  # nobody has said another offset


async def test_a_reused_name_loses_no_offset(registry):
    nodes = Legacy07OffsetNodes(registry, GROUP)
    await nodes.fetch({P0: "1-0"})
    await nodes.commit({P0: 100})
    # Nobody claims P0, while P1 gets its name and loses it again.
    for name in ("1-0", "2-0"):
        other = Legacy07OffsetNodes(registry, GROUP)
        await other.fetch({P1: name})
        await other.commit({P1: 5})
    assert await tree_of(registry, f"{TOP}/offsets") == {"offsets/topic1/2-0": "5"}
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "1-0"}) == {P0: 100}


async def test_deleted_nodes_are_recreated(registry):
    nodes = Legacy07OffsetNodes(registry, GROUP)
    await nodes.fetch({P0: "1-0"})
    await nodes.commit({P0: 1})
    await registry.delete(f"{TOP}/offsets/topic1/1-0")
    await nodes.commit({P0: 2})
    await registry.delete(f"{TOP}/partition_offsets/topic1/0")
    await nodes.commit({P0: 3})
    assert await Legacy07OffsetNodes(registry, GROUP).fetch({P0: "1-0"}) == {P0: 3}


# ---- consumers of brokers


class Stage:
    """Two brokers whose view is at /kafka07, and our own look at that."""

    def __init__(self, tmp_path, connect, registry, stack):
        self.connect = f"{connect}/kafka07"
        self.registry = registry
        self._tmp_path = tmp_path
        self._stack = stack
        self._options = {
            "zookeeper_connect": connect,
            "ottla_zookeeper_legacy07_chroot": "/kafka07",
            "offsets_topic_num_partitions": "1",
            "offsets_topic_replication_factor": "1",
        }

    def broker(self, broker_id):
        return running_broker(self._tmp_path / broker_id, broker_id=broker_id, **self._options)

    def consumer(self, name, topics=("topic1",), **options):
        return ZooKeeperConsumer(
            topics,
            layout="0.7",
            zookeeper_connect=self.connect,
            group_id=GROUP,
            consumer_id=name,
            **{
                "auto_offset_reset": "smallest",
                "zookeeper_session_timeout_ms": 4_000,
                "rebalance_backoff_ms": 500,
                "rebalance_max_retries": 20,
                **options,
            },
        )

    async def seen(self, folder):
        return await tree_of(self.registry, f"{TOP}/{folder}")

    async def become(self, folder, expected):
        async def is_there():
            return await self.seen(folder) == {f"{folder}/{name}": data for name, data in expected.items()}

        try:
            await until(is_there, f"{folder} {expected}")
        except AssertionError as error:
            raise AssertionError(await self.seen(folder)) from error

    async def owners(self, **expected):
        """The threads that own the broker partitions of topic1; the names have b before and _ for the hyphen."""
        names = {f"topic1/{name[1:].replace('_', '-')}": f"{GROUP}_{thread}" for name, thread in expected.items()}
        await self.become("owners", names)


@pytest.fixture
async def stage(tmp_path):
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(f"{connect}/kafka07"))
    await registry.start()
    async with contextlib.AsyncExitStack() as stack:
        yield Stage(tmp_path, connect, registry, stack)
    await registry.close()


@contextlib.asynccontextmanager
async def two_brokers(stage, assignment):
    async with (
        stage.broker("29") as first,
        Admin(bootstrap_servers=first.bootstrap_servers) as admin,
        stage.broker("30") as second,
    ):

        async def are_two():
            return len((await admin.describe_cluster()).brokers) == 2

        await until(are_two, "both are known")
        await admin.create_topic("topic1", assignment=assignment)
        yield first, second, admin


class NeverBack(ZooKeeperRebalanceListener):
    """Keeps a consumer whose session has ended from beginning another."""

    async def partitions_lost(self, partitions):
        await asyncio.Event().wait()


async def take(source, count):
    """So many records, as sorted (partition, offset)."""
    async with asyncio.timeout(DEADLINE_S):
        return sorted((one.partition, one.offset) for one in [await anext(source) for _ in range(count)])


async def produce(broker, counts):
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, count in counts.items():
            for number in range(count):
                await producer.send("topic1", b"%d" % number, partition=partition)


async def test_consumers_share_broker_partitions(stage):
    async with two_brokers(stage, {0: [29], 1: [30], 2: [29], 3: [30]}) as (first, _, admin):
        await produce(first, {0: 2, 1: 2, 2: 2, 3: 2})
        one, two = stage.consumer("c1"), stage.consumer("c2", rebalance_listener=NeverBack())
        async with one:
            await stage.become("ids", {f"{GROUP}_c1": '{"topic1":1}'})
            await stage.owners(b29_0="c1-0", b29_1="c1-0", b30_0="c1-0", b30_1="c1-0")
            assert await take(one, 8) == [(partition, offset) for partition in range(4) for offset in range(2)]
            async with two:
                await stage.owners(b29_0="c1-0", b29_1="c1-0", b30_0="c2-0", b30_1="c2-0")
                await until(lambda: one.assignment() == [P0, P2], "the first reads its partitions")
                await until(lambda: two.assignment() == [P1, P3], "the second reads its partitions")
                at_two = {f"topic1/{name}": "2" for name in ("29-0", "29-1", "30-0", "30-1")}
                await stage.become("offsets", at_two)
                async with stage.consumer("c3") as three:  # it joins
                    await stage.owners(b29_0="c1-0", b29_1="c1-0", b30_0="c2-0", b30_1="c3-0")
                    # One dies: its session ends.
                    address = ZooKeeperAddress.parse(stage.connect)
                    assert await end_session(address, two._registry.credentials, 10_000)
                    await stage.owners(b29_0="c1-0", b29_1="c1-0", b30_0="c3-0", b30_1="c3-0")
                    # Broker partitions appear.
                    await admin.create_partitions("topic1", 6, assignment=[[30], [29]])
                    await stage.owners(
                        b29_0="c1-0", b29_1="c1-0", b29_2="c1-0", b30_0="c3-0", b30_1="c3-0", b30_2="c3-0"
                    )
                    await produce(first, {0: 1, 4: 1, 5: 1, 3: 1})
                    assert await take(one, 2) == [(0, 2), (5, 0)]
                    assert await take(three, 2) == [(3, 2), (4, 0)]
        assert await stage.seen("ids") == {}
        assert await stage.seen("owners") == {}
        assert await stage.seen("partition_owners") == {}
        await stage.become(
            "offsets", {**at_two, "topic1/29-0": "3", "topic1/29-2": "1", "topic1/30-1": "3", "topic1/30-2": "1"}
        )


async def test_offsets_follow_partitions_whose_leader_moves(stage):
    async with stage.broker("29") as first, Admin(bootstrap_servers=first.bootstrap_servers) as admin:
        async with stage.broker("30"):

            async def are_two():
                return len((await admin.describe_cluster()).brokers) == 2

            await until(are_two, "both are known")
            await admin.create_topic("topic1", assignment={0: [30, 29], 1: [29, 30], 2: [30, 29]})
            await produce(first, {0: 1, 1: 2, 2: 3})
            async with stage.consumer("c1") as one:
                await stage.owners(b29_0="c1-0", b30_0="c1-0", b30_1="c1-0")
                assert len(await take(one, 6)) == 6
            await stage.become("offsets", {"topic1/29-0": "2", "topic1/30-0": "1", "topic1/30-1": "3"})
        # Broker 30 is gone, and 29 has three: number 0 of 29 was partition 1, and is partition 0 now.
        async with stage.consumer("c1") as one:
            await stage.owners(b29_0="c1-0", b29_1="c1-0", b29_2="c1-0")
            await produce(first, {0: 1, 1: 1, 2: 1})
            assert await take(one, 3) == [(0, 1), (1, 2), (2, 3)]
        await stage.become("offsets", {"topic1/29-0": "2", "topic1/29-1": "3", "topic1/29-2": "4"})


async def test_one_partition_under_two_names_has_one_owner(stage):
    """A consumer that sees an older view than another must not read what the other reads."""
    async with stage.broker("29") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("topic1", partitions=1)
        lock = f"{TOP}/partition_owners/topic1/0"
        await stage.registry.create(lock, b"group1_other-0", ephemeral=True, make_parents=True)
        one = stage.consumer("c1")
        starting = asyncio.create_task(one.start())

        async def waits():
            return one._rebalancer.count > 1

        await until(waits, "it has tried")
        assert await stage.seen("owners") == {}
        await stage.registry.delete(lock)
        await starting
        await stage.owners(b29_0="c1-0")
        await one.close()


async def test_a_pattern_is_written_as_0_7_wrote_it(stage):
    async with stage.broker("29") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("topic1", partitions=1)
        wanted = TopicFilter.white_list("topic.*")
        async with stage.consumer("c1", topics=(), topic_filter=wanted) as one:
            await stage.become("ids", {f"{GROUP}_c1": "*1*topic.*"})
            await stage.owners(b29_0="c1-0")
            await admin.create_topic("topic2", partitions=1)
            both = {"topic1/29-0": f"{GROUP}_c1-0", "topic2/29-0": f"{GROUP}_c1-0"}
            await stage.become("owners", both)
            await until(lambda: len(one.assignment()) == 2, "it reads both")


async def test_offsets_move_from_and_to_a_current_group(stage):
    async with stage.broker("29") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("topic1", partitions=1)
        await produce(broker, {0: 5})
        await admin.alter_group_offsets(GROUP, {P0: OffsetAndMetadata(3)})
        async with stage.consumer("c1", offsets_storage="kafka") as one:
            assert await take(one, 1) == [(0, 3)]
        assert await stage.seen("offsets") == {"offsets/topic1/29-0": "4"}
        async with stage.consumer("c1", offsets_storage="zookeeper") as one:
            assert await take(one, 1) == [(0, 4)]
        assert (await admin.list_group_offsets(GROUP))[P0].offset == 4
        await produce(broker, {0: 1})
        async with stage.consumer("c1", offsets_storage="kafka") as one:
            assert await take(one, 1) == [(0, 5)]
        assert (await admin.list_group_offsets(GROUP))[P0].offset == 6

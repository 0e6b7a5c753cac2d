"""One look at the cluster, also while a broker does not answer."""

from client.admin.admin import Admin
from client.consumer.group_offsets import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from console.watching.snapshot import GroupState, take_snapshot
from ottla import testing
from support.deadlines import DEADLINE_S

PARTITION = TopicPartition("orders", 0)


async def test_ends_sizes_disks_and_the_lag_of_a_group():
    with testing.broker() as broker:
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", partitions=1)
            for number in range(3):
                await producer.send("orders", b"%d" % number)
            await admin.alter_group_offsets("billing", {PARTITION: OffsetAndMetadata(1)})
            found = await take_snapshot(admin, 17)
        assert (found.time_ms, found.ends[PARTITION], found.groups) == (
            17,
            3,
            {"billing": GroupState("Empty", frozenset(), 2)},
        )
        (disk,) = found.disks.values()
        assert (disk.failed_dirs, disk.log_dirs) == (0, 1)
        assert disk.total >= disk.used >= found.sizes[PARTITION] > 0
        assert found.problems == ()


async def test_a_broker_that_does_not_answer_is_named():
    with testing.cluster(2, {"zookeeper.session.timeout.ms": str(int(2000 * DEADLINE_S))}) as cluster:
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            paused = (await admin.describe_cluster()).controller_id
            (other,) = set(cluster.brokers) - {paused}
        async with Admin(bootstrap_servers=cluster.brokers[other].bootstrap_servers) as admin:
            await take_snapshot(admin, 0)
            cluster.pause_broker(paused)
            try:
                found = await take_snapshot(admin, 0)
                assert f"Broker {paused} did not answer within 3 s." in found.problems
                assert found.disks.keys() == {other}
                assert found.groups is None
                assert not found.has_all_groups
            finally:
                cluster.resume_broker(paused)

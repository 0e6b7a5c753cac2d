"""Groups read from a cluster, one broker of which does not answer."""

import pytest

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from console.groups.readings import list_groups, read_group, read_summaries
from ottla import testing
from support.deadlines import DEADLINE_S
from support.polling import until

NAMES = [f"group-{number}" for number in range(9)]


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3, {"zookeeper.session.timeout.ms": str(int(2000 * DEADLINE_S))}) as running:
        yield running


async def commit(admin, partitions):
    for name in NAMES:

        async def is_committed(name=name):
            done = await admin.alter_group_offsets(name, {one: OffsetAndMetadata(1) for one in partitions})
            return not any(done.values())

        await until(is_committed, f"{name} has offsets")


async def test_a_broker_that_stands_still_is_named_and_the_others_are_shown(cluster):
    async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.create_topic("orders", 3, 1)
        partitions = [TopicPartition("orders", number) for number in range(3)]
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for partition in partitions:
                for number in range(5):
                    await producer.send("orders", b"%d" % number, partition=partition.partition)
        await commit(admin, partitions)
        listed = await list_groups(admin)
        assert [one.group_id for one in listed.groups] == NAMES
        assert listed.problems == []
        summaries = await read_summaries(admin)
        assert {name: one.lag for name, one in summaries.groups.items()} == {name: {"orders": 12} for name in NAMES}
        reading = await read_group(admin, "group-0")
        assert [reading.lag(one) for one in partitions] == [4, 4, 4]

        coordinators = {one.group_id: one.coordinator for one in listed.groups}
        slow = coordinators["group-0"]
        cluster.pause_broker(slow)
        try:
            partial = await list_groups(admin)
            assert [one.group_id for one in partial.groups] == [one for one in NAMES if coordinators[one] != slow]
            assert len(partial.problems) == 1
            assert f"Broker {slow}" in partial.problems[0]
        finally:
            cluster.resume_broker(slow)

"""Groups of one broker, offsets of many groups, and the epochs of the new protocol."""

import pytest

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from ottla import testing
from support.polling import until

PARTITION = TopicPartition("orders", 0)


@pytest.mark.parametrize("version", [None, "2.8"])
async def test_offsets_and_groups_of_a_broker(version):
    with testing.broker(version=version) as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic("orders", 1)
            for group, offset in (("one", 1), ("two", 2)):

                async def is_committed(group=group, offset=offset):
                    done = await admin.alter_group_offsets(group, {PARTITION: OffsetAndMetadata(offset)})
                    return done == {PARTITION: None}

                await until(is_committed, "the offset is committed")
            found = await admin.list_offsets_of_groups(["one", "two", "none"])
            assert {name: {key: one.offset for key, one in offsets.items()} for name, offsets in found.items()} == {
                "one": {PARTITION: 1},
                "two": {PARTITION: 2},
                "none": {},
            }
            assert [one.group_id for one in await admin.list_groups_of(0)] == ["one", "two"]


async def test_epochs_and_targets_of_the_new_protocol():
    with testing.broker() as broker:
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topic("orders", 1)
            async with Consumer("orders", bootstrap_servers=servers, group_id="g", group_protocol="consumer"):

                async def stable():
                    group = (await admin.describe_groups(["g"]))["g"]
                    is_there = not isinstance(group, KafkaError) and group.state == "Stable"
                    return group if is_there and group.members[0].assignment else None

                group = await until(stable, "the group is stable")
                assert group.epoch == group.assignment_epoch == group.members[0].epoch > 0
                assert group.members[0].target == group.members[0].assignment == (PARTITION,)

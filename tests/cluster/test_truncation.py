"""A leader elected uncleanly has not got all that consumers have read: they notice, and go back to where it parts."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.errors import LogTruncationError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.cluster_security import PLAINTEXT, with_security
from support.deadlines import DEADLINE_S

T0 = TopicPartition("t", 0)


async def write(cluster, broker_id, values):
    async with Producer(**cluster.options(broker_id)) as producer:
        for value in values:
            await producer.send("t", b"%d" % value)


async def take(consumer, count):
    values = []
    async with asyncio.timeout(DEADLINE_S):
        while len(values) < count:
            for records in (await consumer.getmany(max_records=count - len(values))).values():
                values += [int(record.value) for record in records]
    return values


@with_security(PLAINTEXT)
async def test_records_that_the_new_leader_does_not_have_are_truncated(start_cluster):
    async with start_cluster(2, auto_leader_rebalance_enable="false") as cluster:
        options = {**cluster.options(), "group_id": "g", "enable_auto_commit": False}
        await cluster.create_topic("t", {0: [0, 1]}, {"unclean.leader.election.enable": "true"})
        await cluster.create_topic("__consumer_offsets", {number: [1] for number in range(3)})
        async with (
            Consumer(**options, auto_offset_reset="latest") as consumer,
            Consumer(**options, auto_offset_reset="none") as strict,
        ):
            await write(cluster, 0, range(10))
            await cluster.stop(1)
            await write(cluster, 0, range(10, 20))
            for one in (consumer, strict):
                one.assign({T0: 0})
            assert await take(consumer, 20) == await take(strict, 20) == list(range(20))
            epoch = (await cluster.state("t"))["leader_epoch"]
            assert consumer._states[T0].epochs.before(20) == epoch > 0

            await cluster.kill_and_expire(0)
            await cluster.start(1)
            await cluster.until_led_by(1, "t")
            await write(cluster, 1, range(100, 115))

            assert await take(consumer, 15) == list(range(100, 115))  # else 110 would be the first
            with pytest.raises(LogTruncationError, match=r"t-0: .*truncated at offset 10.*up to offset 20") as caught:
                await strict.getmany()
            assert caught.value.offset == 10
            strict.seek(T0, 10)
            assert await take(strict, 15) == list(range(100, 115))

            async with Admin(**cluster.options(1)) as admin:
                await admin.alter_group_offsets("g", {T0: OffsetAndMetadata(20, epoch)})
            async with Consumer(**options, auto_offset_reset="latest") as successor:
                successor.assign([T0])
                assert await take(successor, 15) == list(range(100, 115))
                await successor.commit()
                await successor.commit({T0: 12})
                found = await successor.committed([T0])
                assert found[T0] == OffsetAndMetadata(12, (await cluster.state("t"))["leader_epoch"])

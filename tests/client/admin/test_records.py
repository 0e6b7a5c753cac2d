"""The admin client's part that looks at records."""

import pytest

from client.admin.admin import Admin
from client.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from ottla import testing
from support.deadlines import DEADLINE_S


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
async def admin(servers):
    async with Admin(bootstrap_servers=servers, default_api_timeout_ms=int(DEADLINE_S * 1000)) as opened:
        yield opened


async def test_batches_of_aborted_and_open_transactions_are_shown(servers, admin):
    partition = TopicPartition("payments", 0)
    await admin.create_topic("payments", partitions=1)
    async with Producer(bootstrap_servers=servers, transactional_id="a") as producer:
        await producer.begin_transaction()
        await producer.send("payments", b"aborted", partition=0)
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send("payments", b"open", partition=0)
        everything = await admin.read_log(partition, 0)
        assert [(one.base_offset, one.is_control) for one in everything.batches] == [(0, False), (1, True), (2, False)]
        assert (everything.high_watermark, everything.last_stable_offset, everything.log_start_offset) == (3, 2, 0)
        committed = await admin.read_log(partition, 0, read_committed=True)
        assert [one.base_offset for one in committed.batches] == [0, 1]
        assert committed.aborted == [(committed.batches[0].producer_id, 0)]
        assert (await admin.read_log(partition, 3)).batches == []
        await producer.abort_transaction()


async def test_a_batch_larger_than_the_limit_is_whole_and_errors_are_raised(servers, admin):
    partition = TopicPartition("large", 0)
    await admin.create_topic("large", partitions=1)
    async with Producer(bootstrap_servers=servers) as producer:
        for value in (bytes(5000), bytes(5000)):
            await producer.send("large", value, partition=0)
    found = await admin.read_log(partition, 0, max_bytes=100)
    assert [next(one.records()).value for one in found.batches] == [bytes(5000)]
    with pytest.raises(OffsetOutOfRangeError, match="large-0"):
        await admin.read_log(partition, 9)
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.read_log(TopicPartition("large", 7), 0)

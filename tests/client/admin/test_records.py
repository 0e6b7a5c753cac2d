"""The admin client's part that looks at records."""

import pytest

from client.admin.admin import Admin
from client.admin.quotas import DEFAULT, QuotaEntity
from client.errors import OffsetOutOfRangeError, RequestTimeoutError, UnknownTopicOrPartitionError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from ottla import testing
from support.broker import running_broker
from support.deadlines import DEADLINE_MS


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
async def admin(servers):
    async with Admin(bootstrap_servers=servers, default_api_timeout_ms=DEADLINE_MS) as opened:
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


async def _throttled(admin, producer, quota):
    """Write a partition of 20 batches of 10 kB each, and limit all consumers."""
    await admin.create_topic("limited", partitions=1)
    for _ in range(20):
        await producer.send("limited", bytes(10_000), partition=0)
    everybody = QuotaEntity(user=DEFAULT)
    await admin.alter_client_quotas({everybody: {"consumer_byte_rate": quota}})
    return TopicPartition("limited", 0)


async def test_reads_go_on_when_a_quota_throttles_them(tmp_path, monkeypatch):
    """A throttled client gets a Fetch answer without topics: it waits and asks again."""
    async with (
        running_broker(tmp_path / "data", **{"quota.window.num": "2"}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        partition = await _throttled(admin, producer, 50_000.0)
        ask, found = admin._read_log, []

        async def remembering(*words):
            found.append(await ask(*words))
            return found[-1]

        monkeypatch.setattr(admin, "_read_log", remembering)
        offset = 0
        while offset < 20:
            piece = await admin.read_log(partition, offset)
            assert piece.batches[0].base_offset <= offset
            offset = piece.batches[-1].next_offset
        assert any(isinstance(one, float) for one in found), "the quota did not throttle: the test shows nothing"


async def test_a_quota_that_throttles_longer_than_the_timeout_is_named(tmp_path):
    async with (
        running_broker(tmp_path / "data") as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=1000) as hasty,
    ):
        partition = await _throttled(admin, producer, 100.0)
        with pytest.raises(RequestTimeoutError, match=r"limited-0: a quota"):
            await hasty.read_log(partition, 0)

"""Leader epochs of what was read: what is remembered of them, what is asked, and what the answers do (KIP-320)."""

import asyncio
import random

import pytest

from client.consumer import fetcher
from client.consumer.offsets import EARLIEST
from client.consumer.read_epochs import ReadEpochs
from client.consumer.reader import Reader
from client.consumer.reader_state import PartitionState
from client.errors import LogTruncationError
from client.topic_partition import TopicPartition
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.message_set import iter_mixed
from protocol.messages.fetch import EpochEndOffset, PartitionData
from protocol.record_batch import set_base_offset, set_partition_leader_epoch
from protocol.record_batch_builder import RecordBatchBuilder
from support.deadlines import DEADLINE_S
from support.fake_broker import FakeBroker
from support.polling import until

T0 = TopicPartition("t", 0)


def encoded(*values, epoch=0, offset=0):
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(1000, None, b"%d" % value)
    data = bytearray(builder.build())
    set_base_offset(data, 0, offset)
    set_partition_leader_epoch(data, 0, epoch)
    return bytes(data)


def decoded(*batches):
    return list(iter_mixed(b"".join(batches)))


def test_the_epoch_before_an_offset():
    epochs = ReadEpochs()
    assert (epochs.latest, epochs.before(5)) == (-1, -1)
    epochs.begin(10, 3)
    assert (epochs.latest, epochs.before(9), epochs.before(10), epochs.before(99)) == (3, -1, 3, 3)
    epochs.add(decoded(encoded(10, 11, epoch=3, offset=10)))
    epochs.add(decoded(*(encoded(at, epoch=epoch, offset=at) for at, epoch in ((12, 3), (13, 5), (14, 5), (20, 8)))))
    assert [epochs.before(offset) for offset in (12, 13, 14, 15, 20, 21)] == [3, 3, 5, 5, 5, 8]
    epochs.begin(30, -1)
    assert (epochs.latest, epochs.before(99)) == (-1, -1)


def read_to(position, fetched):
    """A state that has read ten records of each epoch from 0 on, the last of them not handed out."""
    state = PartitionState(T0, 0)
    state.epochs.add(decoded(*(encoded(*range(10), epoch=at, offset=10 * at) for at in range(fetched // 10))))
    state.position, state.fetch_offset, state.buffered = position, fetched, 100
    return state


@pytest.mark.parametrize(
    ("position", "end_offset", "goes_on", "epoch"),
    [
        (30, 25, 25, 2),  # records 25 to 29 are others now
        (30, 20, 20, 1),
        (30, 0, 0, 0),
        (15, 25, 15, 1),  # those that are gone were not handed out
        (25, 25, 25, 2),
        (30, 40, 30, -1),  # somewhere before: nobody knows where
    ],
)
def test_the_position_after_a_truncation(position, end_offset, goes_on, epoch):
    state = read_to(position, 30)
    state.truncated(max((end_offset - 1) // 10, 0), end_offset, EARLIEST)
    assert (state.position, state.fetch_offset, state.lookup) == (goes_on, goes_on, None)
    assert state.epochs.latest == epoch
    assert (state.buffered == 0) is (epoch >= 0)


def test_truncation_of_returned_records_is_an_error_without_a_policy():
    state = read_to(30, 30)
    with pytest.raises(LogTruncationError, match=r"t-0: .*truncated at offset 25.*up to offset 30") as caught:
        state.truncated(2, 25, None)
    assert (caught.value.offset, state.position) == (25, 30)
    state = read_to(25, 30)
    state.truncated(2, 25, None)  # nothing that was handed out
    assert (state.position, state.fetch_offset) == (25, 25)


@pytest.fixture
async def fake():
    async with FakeBroker({"t": 1}) as broker:
        broker.epoch = 3
        metadata = broker._metadata

        def of_epoch(*arguments):
            response = metadata(*arguments)
            for topic in response.topics:
                for partition in topic.partitions:
                    partition.leader_epoch = broker.epoch
            return response

        broker._metadata = of_epoch
        yield broker


def reader(fake, **options):
    quick = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "fetch_max_wait_ms": 1, "random": random.Random(1)}
    return Reader(bootstrap_servers=fake.address, **quick | options)


def told(fake):
    """The epochs that came with Fetch requests, by offset."""
    return {
        (part.fetch_offset, part.last_fetched_epoch)
        for request in fake.seen(ApiKey.FETCH)
        for topic in request.topics
        for part in topic.partitions
    }


async def read(source, count):
    return [int((await anext(source)).value) for _ in range(count)]


@pytest.mark.parametrize(("version", "epoch"), [(11, -1), (12, 3), (17, 3)])
async def test_the_last_epoch_is_sent(fake, version, epoch):
    fake.versions[ApiKey.FETCH] = (0, version)
    fake.append("t", 0, encoded(0, 1, epoch=3))
    async with reader(fake) as source:
        source.assign({T0: 0})
        assert await read(source, 2) == [0, 1]
        await until(lambda: any(offset == 2 for offset, _ in told(fake)), "it asks for more")
        assert told(fake) == {(0, -1), (2, epoch)}


async def test_a_leader_with_an_older_epoch_is_not_asked(fake, monkeypatch):
    monkeypatch.setattr(fetcher, "NEWER_LEADER_PATIENCE_S", 3600)
    fake.epoch = 2  # what a broker says that has not heard of the election
    fake.append("t", 0, encoded(0, epoch=3))
    async with reader(fake) as source:
        source.assign({T0: 0})
        assert await read(source, 1) == [0]
        fake.append("t", 0, encoded(1, epoch=3))
        asked = len(fake.seen(ApiKey.METADATA))
        await until(lambda: len(fake.seen(ApiKey.METADATA)) > asked + 3, "it asks who leads, again and again")
        assert told(fake) == {(0, -1)}
        fake.epoch = 3
        assert await read(source, 1) == [1]
        assert (1, 3) in told(fake)


async def test_an_older_epoch_is_accepted_later_as_the_topic_may_be_recreated(fake, monkeypatch):
    monkeypatch.setattr(fetcher, "NEWER_LEADER_PATIENCE_S", 0.05)
    fake.epoch = 0
    fake.append("t", 0, encoded(0, epoch=3))
    async with reader(fake) as source:
        source.assign({T0: 0})
        assert await read(source, 1) == [0]
        fake.append("t", 0, encoded(1, epoch=0))
        async with asyncio.timeout(DEADLINE_S):
            assert await read(source, 1) == [1]
        assert (1, -1) in told(fake)


async def test_a_leader_that_does_not_know_the_epoch_is_asked_without_it(fake):
    fake.append("t", 0, encoded(0, epoch=3))
    async with reader(fake, auto_offset_reset="none") as source:
        source.assign({T0: 0})
        fake.script[ApiKey.FETCH] = [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]
        assert await read(source, 1) == [0]
        await until(lambda: (1, -1) in told(fake), "it is asked again")
        fake.append("t", 0, encoded(1, epoch=3))
        assert await read(source, 1) == [1]


async def test_a_diverging_epoch_from_a_follower_is_ignored(fake):
    async with reader(fake) as source:
        source.assign({T0: 7})
        state = source._states[T0]
        state.read_replica = 5
        diverging = EpochEndOffset(epoch=1, end_offset=3)
        source._fetcher._partition_answered(state, PartitionData(diverging_epoch=diverging))
        assert (state.read_replica, state.position) == (None, 7)
        source._fetcher._partition_answered(state, PartitionData(diverging_epoch=diverging))
        assert state.position == 3

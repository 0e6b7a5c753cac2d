"""A follower's fetcher: what it does with each of the leader's answers, and how it gives partitions back."""

import asyncio

import pytest

from client.errors import ConnectionLostError
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import PartitionData
from replication.fetcher_manager import fetcher_number
from support.replica_group import KEY, ReplicaGroup


@pytest.fixture
async def group(tmp_path):
    """Broker 0 leads, 1 and 2 follow."""
    made = ReplicaGroup(tmp_path, min_isr=1)
    await made.start()
    yield made
    await made.close()


class Scripted:
    """Stands for the endpoint of a leader: gives one answer."""

    def __init__(self, answer=None, offsets=()):
        self.answer = answer
        self.offsets = list(offsets)
        self.asked = []

    async def fetch(self, wanted, max_wait_ms):
        self.asked.append((wanted, max_wait_ms))
        if isinstance(self.answer, Exception):
            raise self.answer
        return {KEY: self.answer}

    async def offset(self, key, leader_epoch, timestamp):
        return self.offsets.pop(0)

    def close(self):
        pass


async def follow(group, count=5):
    """Broker 1 has `count` records of broker 0, and its state."""
    group.produce(0, count)
    for _ in range(3):
        await group.replicas[1].fetch()
        await group.replicas[2].fetch()
    follower = group.replicas[1]
    assert follower.log.log_end_offset == count
    return follower, follower.fetcher.states[KEY]


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False),
    ],
)
async def test_errors(group, code, stays):
    follower, state = await follow(group)
    follower.fetcher._introduction = Scripted(PartitionData(error_code=code))
    await follower.fetch()
    assert (KEY in follower.fetcher.states) is stays
    assert state.failures == (1 if stays else 0)
    assert not stays or not state.is_introduced


async def test_bad_records_are_fetched_again(group):
    follower, state = await follow(group)
    follower.fetcher._introduction = Scripted(PartitionData(records=b"\x00" * 100, high_watermark=9))
    await follower.fetch()
    assert (state.failures, follower.log.log_end_offset) == (1, 5)
    assert follower.log.high_watermark <= 5


@pytest.mark.parametrize(
    ("leaders_end", "leaders_start", "end", "start"),
    [(3, 0, 3, 0), (9, 0, 5, 0), (20, 12, 12, 12), (5, 0, 5, 0)],
)
async def test_an_offset_out_of_range(group, leaders_end, leaders_start, end, start):
    """Cut to the leader's end; or begun anew at its start; or left as it is."""
    follower, state = await follow(group)
    answer = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    follower.fetcher._introduction = Scripted(answer, [leaders_end, leaders_start])
    await follower.fetch()
    assert (follower.log.log_end_offset, follower.log.log_start_offset) == (end, start)
    assert (state.offset, state.failures) == (end, 0)


async def test_an_answer_to_an_older_question_does_not_count(group):
    follower, state = await follow(group)
    session = Scripted()
    wanted = {KEY: state.wanted(compare=True)._replace(offset=4)}
    await follower.fetcher._take(wanted, {KEY: PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH)}, session)
    assert KEY in follower.fetcher.states
    wanted = {KEY: state.wanted(compare=True)._replace(leader_epoch=-5)}
    await follower.fetcher._take(wanted, {KEY: PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH)}, session)
    assert KEY in follower.fetcher.states


async def test_introductions_do_not_wait_where_something_is_new(group):
    follower, state = await follow(group)
    leader = Scripted(PartitionData(high_watermark=5, log_start_offset=0))
    follower.fetcher._introduction = leader
    state.is_introduced = False
    await follower.fetch()
    assert state.is_introduced
    assert state.lag == 0
    assert [wait_ms for _, wait_ms in leader.asked] == [0]


async def test_a_partition_is_given_back_only_when_nobody_changes_its_log(group):
    follower, state = await follow(group)
    state.begin_change()
    removing = asyncio.ensure_future(follower.manager.fetchers.remove([KEY]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not removing.done()
    assert KEY not in follower.fetcher.states
    state.end_change()
    await removing


async def test_a_connection_that_is_lost(group):
    follower, state = await follow(group)
    follower.fetcher._introduction = Scripted(ConnectionLostError("leader", 1, "gone"))
    running = asyncio.ensure_future(follower.fetcher._run_introduction())
    follower.fetcher._introduce_again(state)
    state.is_followed = False
    for _ in range(20):
        await asyncio.sleep(0.005)
        if state.failures:
            break
    assert state.failures >= 1
    assert KEY in follower.fetcher.states
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_deleted_records_within_the_first_batch(group):
    """The leader's log starts in the midst of a batch, which the follower gets whole."""
    group.produce(0, 5)
    leader = group.replicas[0].log
    leader.update_high_watermark(5)
    leader.increment_log_start_offset(3)
    follower = group.replicas[1]
    await follower.manager.logs.truncate_fully_and_start_at(follower.log, 3)
    follower.fetcher.states[KEY].moved()
    for _ in range(3):
        await follower.fetch()
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (3, 5)
    assert follower.log.segments[0].base_offset == 0


@pytest.mark.parametrize(
    ("topic", "partition", "count"), [("t", 0, 1), ("t", 0, 4), ("t", 1, 4), ("orders", 7, 3), ("a" * 40, 2, 7)]
)
def test_which_fetcher_by_kafkas_hash(topic, partition, count):
    """31 * topic.hashCode() + partition in Java's int, its absolute value, modulo the number of fetchers."""
    value = 0
    for character in topic:
        value = (31 * value + ord(character) + 2**31) % 2**32 - 2**31
    assert fetcher_number(topic, partition, count) == abs((31 * value + partition + 2**31) % 2**32 - 2**31) % count

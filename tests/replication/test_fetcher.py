"""A follower's fetcher: what it does with each of the leader's answers, and how it gives partitions back."""

import asyncio
import errno

import pytest

from client.errors import BrokerUnknownError, ConnectionLostError, error_for
from client.wire.backoff import Backoff, Retries
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import EpochEndOffset, PartitionData
from replication.fetch_state import FetchState
from replication.fetcher import LOOK_AGAIN_S, Fetcher
from replication.fetcher_manager import fetcher_number
from replication.follower_log import take_over
from replication.partition import Partition
from support.log_dirs import batch, open_log
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
        offset = self.offsets.pop(0)
        if isinstance(offset, Exception):
            raise offset
        return offset

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


async def test_followers_fetch_and_the_leader_does_not(group):
    assert [replica.manager.fetchers.is_fetched(KEY) for replica in group.replicas] == [False, True, True]


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
    assert state.retries.failures == (1 if stays else 0)
    assert not stays or not state.is_introduced


async def test_invalid_records_are_fetched_again(group):
    follower, state = await follow(group)
    follower.fetcher._introduction = Scripted(PartitionData(records=b"\x00" * 100, high_watermark=9))
    await follower.fetch()
    assert (state.retries.failures, follower.log.log_end_offset) == (1, 5)
    assert follower.log.high_watermark <= 5


@pytest.mark.parametrize(
    ("leaders_end", "leaders_start", "end", "start"),
    [(3, 0, 3, 0), (9, 0, 5, 0), (20, 12, 12, 12), (5, 0, 5, 0)],
)
async def test_an_offset_out_of_range(group, leaders_end, leaders_start, end, start):
    """Truncated to the leader's end, or started again at its start, or left as it is."""
    follower, state = await follow(group)
    answer = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    follower.fetcher._introduction = Scripted(answer, [leaders_end, leaders_start])
    await follower.fetch()
    assert (follower.log.log_end_offset, follower.log.log_start_offset) == (end, start)
    assert (state.offset, state.retries.failures) == (end, 0)


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (error_for(ErrorCode.FENCED_LEADER_EPOCH), False),
        (error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (ConnectionLostError("leader", 1, "gone"), True),
        (BrokerUnknownError("broker 1"), True),
    ],
    ids=repr,
)
async def test_an_offset_out_of_range_without_offsets_of_the_leader(group, error, stays):
    follower, state = await follow(group)
    answer = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    follower.fetcher._introduction = Scripted(answer, [error])
    await follower.fetch()
    assert (KEY in follower.fetcher.states) is stays
    assert (follower.log.log_end_offset, state.retries.failures) == (5, 1 if stays else 0)


def test_offsets_of_the_leader_may_change_nothing(tmp_path):
    log = open_log(tmp_path / "t-0")
    log.append_as_follower(batch(*"abcde"))
    answers = [(3, 0), (3, 0), (2, 0), (3, 1), (9, 1), (9, 1)]
    assert [take_over(log, *answer) for answer in answers] == [True, False, False, True, True, False]
    assert (log.high_watermark, log.log_start_offset) == (5, 1)


@pytest.mark.parametrize(("high_watermark", "truncates"), [(0, True), (1, True), (2, False)])
def test_records_without_leader_epochs_are_truncated_unless_they_are_committed(tmp_path, high_watermark, truncates):
    log = open_log(tmp_path / "t-0")
    log.append_as_follower(batch("a", "b"))
    log.update_high_watermark(high_watermark)
    retries = Retries(Backoff())
    assert FetchState(Partition("t", 0), log, retries, truncates_on_fetch=True).is_truncating is truncates


async def test_late_offsets_of_the_leader_are_ignored(group):
    follower, _ = await follow(group)

    class Slow(Scripted):
        async def offset(self, key, leader_epoch, timestamp):
            if len(self.offsets) == 1:
                follower.fetcher.remove(KEY)  # the controller has named another leader
            return await super().offset(key, leader_epoch, timestamp)

    follower.fetcher._introduction = Slow(PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), [3, 0])
    await follower.fetch()
    assert follower.log.log_end_offset == 5


@pytest.mark.parametrize(("number", "stays"), [(errno.EIO, False), (errno.ENOSPC, True)])
@pytest.mark.parametrize("change", ["append", "truncate"])
async def test_a_failed_disk_stops_fetching_and_a_full_disk_delays_it(group, change, number, stays):
    follower, state = await follow(group)
    group.fs.broken = {follower.log.directory: number}
    if change == "append":
        group.produce(0, 1)
    else:
        diverging = EpochEndOffset(epoch=0, end_offset=3)
        follower.fetcher._introduction = Scripted(PartitionData(diverging_epoch=diverging))
    await follower.fetch()
    assert (KEY in follower.fetcher.states) is stays
    assert state.retries.failures == (1 if stays else 0)


async def test_fetch_requests_contain_the_log_start_offset(group):
    follower, state = await follow(group)
    first = state.wanted(compare=True)
    assert state.wanted(compare=True) is first
    follower.log.commit_all()
    follower.log.increment_log_start_offset(2)
    assert (first.log_start_offset, state.wanted(compare=True).log_start_offset) == (0, 2)


async def test_the_fetcher_of_a_former_leader_is_closed(group):
    await follow(group)
    fetchers = group.replicas[1].manager.fetchers
    assert [leader for leader, _ in fetchers.fetchers] == [0]
    group.elect(2)
    await group.deliver(1)
    assert [leader for leader, _ in fetchers.fetchers] == [2]


async def test_an_answer_to_an_older_request_is_ignored(group):
    follower, state = await follow(group)
    session = Scripted()
    wanted = {KEY: state.wanted(compare=True)._replace(offset=4)}
    await follower.fetcher._take(wanted, {KEY: PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH)}, session)
    assert KEY in follower.fetcher.states
    wanted = {KEY: state.wanted(compare=True)._replace(leader_epoch=-5)}
    await follower.fetcher._take(wanted, {KEY: PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH)}, session)
    assert KEY in follower.fetcher.states


async def test_a_fetch_with_new_partitions_does_not_wait(group):
    follower, state = await follow(group)
    leader = Scripted(PartitionData(high_watermark=5, log_start_offset=0))
    follower.fetcher._introduction = leader
    state.is_introduced = False
    await follower.fetch()
    assert state.is_introduced
    assert state.lag == 0
    assert [wait_ms for _, wait_ms in leader.asked] == [0]


async def test_a_partition_is_released_only_when_its_log_is_not_being_changed(group):
    follower, state = await follow(group)
    state.begin_change()
    removing = asyncio.ensure_future(follower.manager.fetchers.remove([KEY]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not removing.done()
    assert KEY not in follower.fetcher.states
    state.end_change()
    await removing


async def test_a_lost_connection(group):
    follower, state = await follow(group)
    follower.fetcher._introduction = Scripted(ConnectionLostError("leader", 1, "gone"))
    running = asyncio.ensure_future(follower.fetcher._run_introduction())
    follower.fetcher._introduce_again(state)
    state.is_followed = False
    for _ in range(20):
        await asyncio.sleep(0.005)
        if state.retries.failures:
            break
    assert state.retries.failures >= 1
    assert KEY in follower.fetcher.states
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("start", [1, 3, 4])
async def test_deleted_records_within_the_first_batch(group, start):
    """The leader's log starts in the midst of a batch, which the follower gets whole."""
    group.produce(0, 5)
    leader = group.replicas[0].log
    leader.update_high_watermark(5)
    leader.increment_log_start_offset(start)
    follower = group.replicas[1]
    await follower.manager.logs.truncate_fully_and_start_at(follower.log, start)
    follower.fetcher.states[KEY].moved()
    for _ in range(3):
        await follower.fetch()
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (start, 5)
    assert follower.log.segments[0].base_offset == 0


@pytest.mark.parametrize(
    ("topic", "partition", "count"), [("t", 0, 1), ("t", 0, 4), ("t", 1, 4), ("orders", 7, 3), ("a" * 40, 2, 7)]
)
def test_partitions_map_to_fetchers_by_kafkas_hash(topic, partition, count):
    """31 * topic.hashCode() + partition in Java's int, its absolute value, modulo the number of fetchers."""
    value = 0
    for character in topic:
        value = (31 * value + ord(character) + 2**31) % 2**32 - 2**31
    assert fetcher_number(topic, partition, count) == abs((31 * value + partition + 2**31) % 2**32 - 2**31) % count


# -- what the session asks for -----------------------------------------------------------------------------------------


class Following:
    """Stands for a `FetchState`; `asks` for what it is set to."""

    def __init__(self, name):
        self.key = (name, 0)
        self.is_introduced = True
        self.is_busy = self.is_followed = False
        self.lag = 1
        self.partition = None
        self.asks = 1

    def wanted(self, *, compare):
        return self.asks


class Quota:
    is_exceeded = False

    def applies_to(self, partition):
        return True


class Sessions:
    """A fetcher with the partitions a and b, which its session asks for already."""

    def __init__(self):
        self.now_s = 100.0
        self.quota = Quota()
        self.fetcher = Fetcher(
            1, Scripted(), Scripted(), None, settings=None, quota=self.quota, truncates_on_fetch=True,
            now_s=lambda: self.now_s, on_failed=lambda key: None, backoff=Backoff(),
        )  # fmt: skip
        self.a, self.b = Following("a"), Following("b")
        self.fetcher.states = {state.key: state for state in (self.a, self.b)}
        assert self.wants() == {"a": 1, "b": 1}
        assert self.a.is_followed

    def wants(self, *answered):
        return {
            name: asks for (name, _), asks in self.fetcher._wanted_by_session([(one, 0) for one in answered]).items()
        }


async def test_only_answered_partitions_are_checked():
    session = Sessions()
    before = session.fetcher._session_wants
    session.a.asks = session.b.asks = 2
    assert session.wants("a") == {"a": 2, "b": 1}
    assert before == {("a", 0): 1, ("b", 0): 1}  # what the leader knows is another dict
    session.now_s += LOOK_AGAIN_S
    session.a.asks = 3
    assert session.wants("a") == {"a": 3, "b": 2}


async def test_all_partitions_are_checked_after_an_empty_poll():
    session = Sessions()
    session.b.asks = 2
    assert session.wants() == {"a": 1, "b": 2}


async def test_removed_and_failed_partitions_are_not_fetched():
    session = Sessions()
    session.fetcher.remove(session.b.key)
    assert session.wants("a") == {"a": 1}
    session.a.is_busy = True
    assert session.wants("a") == {}
    session.a.is_busy = False
    assert session.wants() == {"a": 1}
    session = Sessions()
    session.b.is_busy = True
    assert session.wants("a", "b") == {"a": 1}


async def test_a_busy_partition_is_fetched_when_it_is_free():
    session = Sessions()
    session.b.is_busy = True
    assert session.wants() == {"a": 1}
    session.b.is_busy = False
    assert session.wants("a") == {"a": 1, "b": 1}


async def test_throttled_partitions_are_not_fetched():
    session = Sessions()
    session.quota.is_exceeded = True
    session.a.lag = 0
    assert session.wants("a") == {"a": 1}
    session.quota.is_exceeded = False
    assert session.wants("a") == {"a": 1, "b": 1}


async def test_partitions_changed_by_an_introduction_are_checked():
    session = Sessions()
    await session.fetcher._take({}, {}, session.fetcher._introduction)
    session.b.asks = 2
    assert session.wants("a") == {"a": 1, "b": 2}

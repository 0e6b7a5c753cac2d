"""A member of a group of the new protocol (KIP-848) whose group changes while its requests are on their way.

The group is scripted: a real one does this within a millisecond, too rarely for a test.
"""

import asyncio

import pytest

from client.consumer.consumer import Consumer
from client.topic_partition import TopicPartition
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from support.batches import build
from support.fake_broker import STALL, topic_id
from support.fake_coordinator import FakeCoordinator
from support.polling import until

HEARTBEAT, FETCH_OFFSETS, COMMIT = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT
T0 = TopicPartition("t", 0)


class FakeGroup(FakeCoordinator):
    """A group whose only member owns t-0. `epoch` is its epoch, 0 while the group does not know it."""

    served = (*FakeCoordinator.served, HEARTBEAT, FETCH_OFFSETS, COMMIT)

    def __init__(self):
        super().__init__({"t": 1})
        self.epoch = 0
        self.committed = {}

    def _refusal(self, epoch):
        if not self.epoch:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == self.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def _consumer_group_heartbeat(self, request, version, error):
        if request.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.member_epoch == 0:
            self.epoch = 10
        elif not self.epoch:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=10,
            assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=topic_id("t"), partitions=[0])]),
        )

    def _offset_fetch(self, request, version, error):
        code = self._refusal(request.groups[0].member_epoch)
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=code)])

    def _offset_commit(self, request, version, error):
        code = self._refusal(request.generation_id_or_member_epoch)
        if not code:
            self.committed = {one.partition_index: one.committed_offset for one in request.topics[0].partitions}
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])

    def first(self, key, change):
        """Before the first request of an API is answered, `change` the epoch."""

        def answer(request, version):
            self.epoch = change(self.epoch)
            return getattr(self, f"_{key.name.lower()}")(request, version, ErrorCode.NONE)

        self.script[key].append(answer)


@pytest.fixture
async def group():
    async with FakeGroup() as fake:
        fake.append("t", 0, build([(1000, None, b"one", [])]))
        yield fake


def member(group, *, enable_auto_commit=False, **options):
    return Consumer(
        bootstrap_servers=group.address,
        group_id="g",
        group_protocol="consumer",
        auto_offset_reset="earliest",
        retry_backoff_ms=1,
        enable_auto_commit=enable_auto_commit,
        **options,
    )


@pytest.mark.parametrize(
    "change",
    [pytest.param(lambda epoch: epoch + 1, id="new-epoch"), pytest.param(lambda _: 0, id="removed")],
)
async def test_the_group_changes_during_offset_fetch(group, change):
    group.first(FETCH_OFFSETS, change)
    async with member(group) as consumer:
        await consumer.subscribe(["t"])
        assert (await anext(consumer)).value == b"one"
    assert len(group.seen(FETCH_OFFSETS)) > 1


async def test_the_epoch_changes_during_offset_commit(group):
    group.first(COMMIT, lambda epoch: epoch + 1)
    async with member(group) as consumer:
        await consumer.subscribe(["t"])
        assert (await anext(consumer)).value == b"one"
        await consumer.commit({T0: 1})
    assert group.committed == {0: 1}


async def test_the_epoch_changes_during_the_last_heartbeat(group):
    """The consumer is closed before the response is there: its last commit is one of the new epoch all the same."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def later(request, version):
        asked.set()
        await answered.wait()
        group.epoch += 1
        return group._consumer_group_heartbeat(request, version, ErrorCode.NONE)

    async with member(group, enable_auto_commit=True, api_timeout_ms=1000) as consumer:
        await consumer.subscribe(["t"])
        assert (await anext(consumer)).value == b"one"
        group.script[HEARTBEAT].append(later)
        await asked.wait()
        closing = asyncio.create_task(consumer.close())
        for _ in range(5):
            await asyncio.sleep(0)
        answered.set()
        await closing
    assert group.committed == {0: 1}
    assert group.seen(HEARTBEAT)[-1].member_epoch == -1


async def test_the_last_heartbeat_is_not_answered(group):
    """Its connection is closed after the time that `close` has, and with it everything of the member ends."""
    asked = asyncio.Event()

    def never(request, version):
        asked.set()
        return STALL

    async with member(group) as consumer:
        await consumer.subscribe(["t"])
        assert (await anext(consumer)).value == b"one"
        group.script[HEARTBEAT].append(never)
        await asked.wait()
        await consumer.close(timeout_s=0.01)
    await until(lambda: all(one.get_name() != "member of g" for one in asyncio.all_tasks()), "the member has ended")

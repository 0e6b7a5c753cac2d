"""AlterPartition requests: one at a time, what waited goes together, again until answered; what refusals mean."""

import asyncio
import contextlib
import itertools
import random

import pytest

from client.errors import ConnectionLostError
from client.wire.backoff import Backoff
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from replication.alter_partition import IsrChange, IsrChangeRefusedError, LeaderAndIsr
from replication.alter_partition_requests import AlterPartitionRequests
from replication.in_sync_replicas import REFUSED_MS, LagRules
from replication.isr_changes import RETRY_BACKOFF_MS, IsrChanges
from support.polling import until
from support.replica_group import ReplicaGroup
from support.simulation.virtual_loop import VirtualTimeLoop

IMPATIENT = Backoff(1, 5)
ID, NO_ID = b"1" * 16, bytes(16)


class Controller:
    """Stands for the link to the controller: each request is answered by the next of `answers`."""

    def __init__(self, max_version=3):
        self.max_version = max_version
        self.requests = []
        self.answers = asyncio.Queue()
        self.under_way = 0
        self.closed = 0

    async def open(self):
        return self

    def close(self):
        self.closed += 1

    def common_version(self, message, limit):
        return self.max_version if limit is None else min(limit, self.max_version)

    async def call(self, request, response, version):
        self.under_way += 1
        assert self.under_way == 1
        self.requests.append(AlterPartitionRequest.decode(b"".join(request.encode(version)), version)[0])
        try:
            answer = await self.answers.get()
        finally:
            self.under_way -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def change(partition=0, topic="t", topic_id=ID, isr=(1, 2)):
    return IsrChange(topic, topic_id, partition, LeaderAndIsr(1, 5, isr, 3, (11, 12)[: len(isr)]), 9)


def answer(*partitions, topic="t", topic_id=ID, code=0):
    data = [
        ResponsePartitionData(
            partition_index=partition, error_code=code, leader_id=1, leader_epoch=5, isr=[1, 2], partition_epoch=4
        )
        for partition in partitions
    ]
    return AlterPartitionResponse(topics=[ResponseTopicData(topic_name=topic, topic_id=topic_id, partitions=data)])


@contextlib.asynccontextmanager
async def asking(max_version=3):
    controller = Controller(max_version)
    manager = AlterPartitionRequests(1, controller, lambda: 77, IMPATIENT)
    running = asyncio.create_task(manager.run())
    yield controller, manager
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_waiting_changes_are_sent_with_the_next_request():
    async with asking() as (controller, manager):
        first = asyncio.create_task(manager.submit(change()))
        await until(lambda: controller.requests, "the first is sent")
        later = [asyncio.create_task(manager.submit(change(partition))) for partition in (1, 2)]
        await asyncio.sleep(0)
        controller.answers.put_nowait(answer(0))
        assert await first == LeaderAndIsr(1, 5, (1, 2), 4)
        controller.answers.put_nowait(answer(1, 2))
        assert [one.partition_epoch for one in await asyncio.gather(*later)] == [4, 4]
        request = controller.requests[1]
        assert (request.broker_id, request.broker_epoch) == (1, 77)
        assert [one.partition_index for one in request.topics[0].partitions] == [1, 2]
        one = request.topics[0].partitions[0]
        assert (one.leader_epoch, one.partition_epoch) == (5, 3)
        assert [(state.broker_id, state.broker_epoch) for state in one.new_isr_with_epochs] == [(1, 11), (2, 12)]


@pytest.mark.parametrize(("max_version", "topic_id", "version"), [(2, ID, 2), (3, NO_ID, 1)])
async def test_older_versions(max_version, topic_id, version):
    async with asking(max_version) as (controller, manager):
        decided = asyncio.create_task(manager.submit(change(topic_id=topic_id)))
        await until(lambda: controller.requests, "it is sent")
        topic = controller.requests[0].topics[0]
        assert topic.partitions[0].new_isr == [1, 2]
        assert (topic.topic_name == "t") is (version < 2)
        controller.answers.put_nowait(answer(0, topic_id=topic_id))
        assert (await decided).isr == (1, 2)


@pytest.mark.parametrize(
    ("failure", "closed"),
    [
        (ConnectionLostError("a", 1, "gone"), 0),
        (AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), 0),
        (AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER), 1),  # another one is asked then
        (AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), 0),
        (AlterPartitionResponse(), 0),  # which says nothing of the partition
    ],
)
async def test_a_failed_request_is_retried(failure, closed):
    async with asking() as (controller, manager):
        decided = asyncio.create_task(manager.submit(change()))
        controller.answers.put_nowait(failure)
        controller.answers.put_nowait(answer(0))
        assert (await decided).partition_epoch == 4
        assert controller.requests[0] == controller.requests[1]
        assert controller.closed == closed


async def test_a_refusal_of_one_partition():
    async with asking() as (controller, manager):
        decided = asyncio.create_task(manager.submit(change()))
        controller.answers.put_nowait(answer(0, code=ErrorCode.FENCED_LEADER_EPOCH))
        with pytest.raises(IsrChangeRefusedError, match="FENCED_LEADER_EPOCH"):
            await decided


async def test_a_newer_change_of_a_partition_replaces_the_waiting_one():
    async with asking() as (controller, manager):
        first = asyncio.create_task(manager.submit(change()))
        await until(lambda: controller.requests, "it is sent")
        second = asyncio.create_task(manager.submit(change(isr=(1,))))
        with pytest.raises(IsrChangeRefusedError, match="newer"):
            await first
        controller.answers.put_nowait(answer(0))
        controller.answers.put_nowait(answer(0))
        assert (await second).partition_epoch == 4
        assert len(controller.requests[1].topics[0].partitions[0].new_isr_with_epochs) == 1


# -- what becomes of the partition -------------------------------------------------------------------------------------


class Decider:
    """An `AlterPartition` that gives the next of `outcomes`."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.asked = []

    async def submit(self, change):
        self.asked.append(change)
        outcome = self.outcomes.pop(0)
        if outcome is None:
            return change.proposed._replace(partition_epoch=change.proposed.partition_epoch + 1)
        if isinstance(outcome, LeaderAndIsr):
            return outcome
        raise IsrChangeRefusedError(outcome)

    async def run(self):
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("outcomes", "asked", "pending", "shrunk", "failed"),
    [
        ([None], 1, False, 1, 0),
        ([ErrorCode.UNKNOWN_SERVER_ERROR, None], 2, False, 1, 1),  # again
        ([ErrorCode.OPERATION_NOT_ATTEMPTED], 1, False, 0, 1),  # back to what it was
        ([ErrorCode.INELIGIBLE_REPLICA], 1, False, 0, 1),
        ([int(ErrorCode.INELIGIBLE_REPLICA)], 1, False, 0, 1),  # as a response has it
        ([ErrorCode.INVALID_UPDATE_VERSION], 1, True, 0, 1),  # the controller's word will come
        ([ErrorCode.FENCED_LEADER_EPOCH], 1, True, 0, 1),
        ([LeaderAndIsr(0, 1, (0,), 9)], 1, True, 0, 1),  # of another leader epoch
    ],
)
async def test_decisions(tmp_path, caplog, outcomes, asked, pending, shrunk, failed):
    caplog.set_level("INFO", "replication.isr_changes")
    group = ReplicaGroup(tmp_path)
    await group.start()
    try:
        leader = group.replicas[0]
        group.produce(0, 3)
        group.now_ms += 60_000
        decider = Decider(*outcomes)
        rules = leader.manager.rules
        changes = IsrChanges(0, LagRules(max_lag_ms=1_000_000), decider, lambda: 1, IMPATIENT)
        running = asyncio.create_task(changes.run(list))
        await asyncio.sleep(0)
        changes.check_lag(leader.partition)
        await until(lambda: (changes.shrunk, changes.failed) == (shrunk, failed), "it is decided")
        await until(lambda: len(decider.asked) == asked, "as often as needed")
        await asyncio.sleep(0)
        assert (leader.partition.sync.pending is not None) is pending
        assert leader.partition.isr == ((0,) if shrunk else (0, 1, 2))
        assert leader.partition.partition_epoch == (1 if shrunk else 0)
        assert rules.now_ms() == 60_000
        assert "INELIGIBLE_REPLICA" not in caplog.text  # the log of every broker that stops would be full of it
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        await group.close()


async def test_a_follower_that_was_refused_is_not_proposed_with_each_of_its_fetches(tmp_path):
    group = ReplicaGroup(tmp_path)
    await group.start()
    try:
        partition = group.replicas[0].partition
        sync = partition.sync
        sync.isr = (0, 1)
        sync.fetched(2, partition.log.log_end_offset, 0, partition.log.log_end_offset, 1)
        decider = Decider(ErrorCode.INELIGIBLE_REPLICA, None)
        changes = IsrChanges(0, LagRules(), decider, lambda: 1, IMPATIENT)
        running = asyncio.create_task(changes.run(list))
        await asyncio.sleep(0)
        changes.check_expand(partition, 2)
        await until(lambda: changes.failed == 1, "it is refused")
        changes.check_expand(partition, 2)
        assert sync.pending is None
        group.now_ms += REFUSED_MS
        changes.check_expand(partition, 2)
        await until(lambda: changes.expanded == 1, "it joins later")
        assert [change.proposed.isr for change in decider.asked] == [(0, 1, 2)] * 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        await group.close()


def test_the_delays_between_requests_that_fail_grow():
    asked_s = []

    class Away:
        async def open(self):
            asked_s.append(asyncio.get_running_loop().time())
            raise ConnectionLostError("controller", 1, "gone")

        def close(self):
            pass

    async def ask():
        requests = AlterPartitionRequests(1, Away(), lambda: 77, Backoff(RETRY_BACKOFF_MS, random=random.Random(1)))
        asking = [asyncio.ensure_future(requests.submit(change())), asyncio.ensure_future(requests.run())]
        await asyncio.sleep(4.0)
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    loop = VirtualTimeLoop()
    loop.run_until_complete(ask())
    loop.close()
    waited_s = [after - before for before, after in itertools.pairwise(asked_s)]
    assert waited_s[:7] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0], rel=0.2)

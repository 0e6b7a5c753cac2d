"""What is committed while followers lag: three replicas, some stopped or slow, and a clock that the test sets.

Whoever exceeds replica.lag.max.messages or replica.lag.time.max.ms leaves the ISR and is not waited for.
"""

from __future__ import annotations

import pytest

from replication.in_sync_replicas import NO_LIMIT
from support.replica_group import KEY, LAG_MS, ReplicaGroup

LIMIT = 10


@pytest.fixture
async def group(tmp_path):
    made = ReplicaGroup(tmp_path, min_isr=1, max_lag_messages=LIMIT)
    await made.start()
    yield made
    await made.close()


def produce(group, count):
    """Append one batch; the future that is done when all of it is committed."""
    group.produce(0, count)
    manager = group.replicas[0].manager
    return manager.wait_for_commit({KEY: group.replicas[0].log.log_end_offset}, 60)


async def is_answered(group, waiting):
    await group.settle()
    return waiting is None or waiting.done()


async def fetch(group, *followers):
    """Each fetches once: the leader hears how far it has got, and answers with what comes next."""
    for one in followers:
        await group.replicas[one].fetch()
    await group.settle()


def sync(group):
    return group.replicas[0].partition.sync


async def test_stopped_followers_that_are_too_far_behind_do_not_keep_a_record_uncommitted(group):
    waiting = produce(group, LIMIT + 1)
    assert not await is_answered(group, waiting)
    await group.wait(1)  # far less than replica.lag.time.max.ms
    assert group.isr == (0,)
    assert await is_answered(group, waiting)


async def test_records_written_after_they_left_are_committed_at_once(group):
    produce(group, LIMIT + 1)
    await group.wait(1)
    for _ in range(3):
        assert await is_answered(group, produce(group, 1))


async def test_stopped_followers_within_the_limit_leave_after_lag_time_max(group):
    waiting = produce(group, LIMIT)
    await group.wait(LAG_MS)
    assert group.isr == (0, 1, 2)
    assert not await is_answered(group, waiting)
    await group.wait(1)
    assert group.isr == (0,)
    assert await is_answered(group, waiting)


async def test_a_slow_follower_that_still_fetches_does_not_keep_records_uncommitted(group):
    """By time it is caught up: each fetch asks for what follows the leader's end at its fetch before."""
    for _ in range(5):
        waiting = produce(group, LIMIT + 5)
        await fetch(group, 1, 2, 1)
        await group.wait(LAG_MS // 4)
        assert group.isr == (0, 1)
        assert await is_answered(group, waiting)
    await fetch(group, 2)  # nothing more has been written
    assert group.isr == (0, 1, 2)


async def follower_that_may_join_soon(group):
    """Follower 2 is outside the ISR, within both limits, and lacks the last committed records. Then it stops."""
    produce(group, LIMIT + 5)
    await fetch(group, 1, 2, 1)
    await group.wait(1)
    produce(group, 5)
    await fetch(group, 1, 1)
    await fetch(group, 2)
    assert group.isr == (0, 1)
    assert sync(group).end_offsets == {1: LIMIT + 10, 2: LIMIT + 5}
    waiting = produce(group, 1)
    await fetch(group, 1, 1)
    assert not await is_answered(group, waiting)
    return waiting


async def test_a_stopped_follower_outside_the_isr_is_waited_for_until_lag_time_max(group):
    waiting = await follower_that_may_join_soon(group)  # it was caught up last at 0, and it is 1 now
    await group.wait(LAG_MS - 1)
    assert not await is_answered(group, waiting)
    await group.wait(1)
    assert await is_answered(group, waiting)


async def test_a_stopped_follower_outside_the_isr_is_waited_for_until_later_writes_leave_it_behind(group):
    waiting = await follower_that_may_join_soon(group)
    produce(group, 4)
    await fetch(group, 1, 1)
    assert not await is_answered(group, waiting)
    produce(group, 1)
    assert await is_answered(group, waiting)


async def test_a_follower_outside_the_isr_is_waited_for_until_its_broker_dies(group):
    waiting = await follower_that_may_join_soon(group)
    group.live.discard(2)
    group.replicas[0].manager.brokers_died({2})
    assert await is_answered(group, waiting)


async def test_a_follower_outside_the_isr_that_fetches_on_joins(group):
    waiting = await follower_that_may_join_soon(group)
    await fetch(group, 2, 2)
    assert group.isr == (0, 1, 2)
    assert await is_answered(group, waiting)


async def test_without_a_limit_any_number_of_records_may_be_missing(tmp_path):
    group = ReplicaGroup(tmp_path, min_isr=1, max_lag_messages=NO_LIMIT)
    await group.start()
    try:
        waiting = produce(group, 10 * LIMIT)
        await group.wait(LAG_MS)
        assert group.isr == (0, 1, 2)
        assert not await is_answered(group, waiting)
        await group.wait(1)
        assert await is_answered(group, waiting)
    finally:
        await group.close()

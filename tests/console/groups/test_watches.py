"""Watched groups: one reading for all who look, samples while nobody does, and an end."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.admin.types import NewTopic
from client.consumer.group_metadata import OffsetAndMetadata
from client.errors import GroupIdNotFoundError
from client.topic_partition import TopicPartition
from console.groups.history import KEPT_S
from console.groups.watches import MAX_WATCHED, GroupWatches, SharedReading
from support.polling import until

PARTITION = TopicPartition("orders", 0)


class Clock:
    """A clock that the test moves."""

    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as opened:
        await opened.create_topics([NewTopic("orders", 1)])
        yield opened


async def commit(admin, group_id, offset=0):
    async def is_committed():
        return await admin.alter_group_offsets(group_id, {PARTITION: OffsetAndMetadata(offset)}) == {PARTITION: None}

    await until(is_committed, "the offset is committed")


@pytest.fixture
async def clock():
    return Clock()


@pytest.fixture
async def watches(clock):
    found = GroupWatches(clock=clock, now_ms=lambda: int(clock.now * 1000), sample_s=0.01)
    yield found
    await found.close()


async def test_a_watched_group_is_sampled_until_half_an_hour_after_the_last_look(admin, watches, clock):
    await commit(admin, "sampled")
    watch, reading = await watches.look(admin, "sampled")
    assert reading.committed_offset(PARTITION) == 0
    for number in range(1, 4):
        clock.now += 10

        async def is_sampled(number=number):
            return len(watch.history.times_ms) == number + 1

        await until(is_sampled, "there is another sample")
    clock.now += KEPT_S

    async def is_over():
        return watches.watched == []

    await until(is_over, "the group is not watched any more")


async def test_a_group_that_does_not_exist_is_not_watched(admin, watches):
    with pytest.raises(GroupIdNotFoundError, match="nobody"):
        await watches.look(admin, "nobody")
    assert watches.watched == []


async def test_the_group_looked_at_longest_ago_makes_room(admin, watches):
    for number in range(MAX_WATCHED + 1):
        await commit(admin, f"g{number}")
        await watches.look(admin, f"g{number}")
        await watches.look(admin, "g0")
    assert len(watches.watched) == MAX_WATCHED
    assert {"g0", f"g{MAX_WATCHED}"} <= set(watches.watched)
    assert "g1" not in watches.watched


async def test_the_summaries_of_all_groups(admin, watches):
    await commit(admin, "summed", 0)
    found = await watches.summaries(admin)
    assert (found.groups["summed"].members, found.groups["summed"].lag, found.problems) == (0, {"orders": 0}, [])


async def test_who_asks_at_the_same_time_shares_one_reading(clock):
    count = 0

    async def read():
        nonlocal count
        count += 1
        await asyncio.sleep(0)
        if count == 2:
            raise ValueError("the second reading")
        return count

    reading = SharedReading(read, 5, clock)
    assert await asyncio.gather(reading.get(), reading.get()) == [1, 1]
    clock.now += 4
    assert await reading.get() == 1
    clock.now += 1
    with pytest.raises(ValueError, match="second"):
        await reading.get()
    assert await reading.get() == 3  # an error is not kept

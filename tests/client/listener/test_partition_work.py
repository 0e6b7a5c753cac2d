"""The records of one partition: lanes, and up to where all is done."""

import random

import pytest

from client.consumer.fetched import ConsumerRecord
from client.listener.partition_work import PartitionWork


def record(offset, key=None):
    return ConsumerRecord("t", 0, 0, offset, 0, key, None, ())


def taken(work):
    items = []
    while (item := work.take()) is not None:
        items.append(item)
    return items


def test_items_of_one_lane_are_taken_one_at_a_time():
    work = PartitionWork(None)
    work.add([record(5), record(6)])
    (first,) = taken(work)
    assert first.records[0].offset == 5
    work.release(first)
    (second,) = taken(work)
    assert second.records[0].offset == 6
    work.release(second)
    assert taken(work) == []


def test_the_position_is_the_first_unfinished_record():
    work = PartitionWork(lambda one: one.offset)
    work.add([record(10), record(12), record(13)])
    work.add([record(20)])
    items = taken(work)
    assert (work.position, work.first_unfinished, work.unfinished) == (None, 10, 4)
    work.finish(items[1])
    work.finish(items[3])
    assert (work.position, work.batch_position, work.first_unfinished, work.unfinished) == (None, None, 10, 2)
    work.finish(items[0])
    work.finish(items[0])
    assert (work.position, work.batch_position, work.first_unfinished, work.unfinished) == (13, None, 13, 1)
    work.finish(items[2])
    assert (work.position, work.batch_position, work.first_unfinished, work.unfinished) == (21, 21, None, 0)


def test_repeated_offsets_are_distinguished():
    work = PartitionWork(lambda one: object())
    work.add([record(7)])
    work.add([record(3)])
    work.add([record(7)])
    first, second, third = taken(work)
    work.finish(third)
    assert work.position is None
    work.finish(first)
    assert work.position == 8
    assert work.first_unfinished == 3
    work.finish(second)
    assert work.position == 8


def test_a_poll_as_one():
    work = PartitionWork(None)
    work.add([record(0), record(1)], as_one=True)
    work.add([record(2)], as_one=True)
    (item,) = taken(work)
    assert [one.offset for one in item.records] == [0, 1]
    assert work.unfinished == 3
    work.finish(item)
    assert (work.position, work.unfinished) == (2, 1)


@pytest.mark.parametrize("seed", range(20))
def test_random_histories(seed):
    chosen = random.Random(seed)
    work = PartitionWork(lambda one: object() if one.key is None else one.key)
    offset, polls, running, done, begun = 0, [], [], set(), []
    offsets = []
    while len(begun) < 200:
        match chosen.choice(("add", "take", "take", "finish", "finish")):
            case "add":
                some = []
                for _ in range(chosen.randint(1, 5)):
                    offset += chosen.choice((1, 1, 3))
                    some.append(record(offset, chosen.choice((None, b"a", b"b", b"c"))))
                offsets += [one.offset for one in some]
                polls.append(offset)
                work.add(some)
            case "take":
                if (item := work.take()) is not None:
                    assert item.lane not in [other.lane for other in running]
                    running.append(item)
                    begun.append(item.records[0])
            case "finish" if running:
                item = running.pop(chosen.randrange(len(running)))
                work.finish(item)
                work.release(item)
                done.add(item.records[0].offset)
        first = next((one for one in offsets if one not in done), None)
        assert work.first_unfinished == first
        before = [one for one in offsets if first is None or one < first]
        assert work.position == (before[-1] + 1 if before else None)
        whole = [one for one in polls if first is None or one < first]
        assert work.batch_position == (whole[-1] + 1 if whole else None)
        assert work.unfinished == len(offsets) - len(done)
        for key in (b"a", b"b", b"c"):
            mine = [one.offset for one in begun if one.key == key]
            assert mine == sorted(mine)

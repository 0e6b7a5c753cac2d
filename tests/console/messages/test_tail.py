"""Where a tail goes from look to look, and when it becomes a sample."""

from types import SimpleNamespace

from console.decoding.record_decoder import RecordDecoder
from console.messages.filters import RecordFilter
from console.messages.partition_log import Range
from console.messages.tail import MOST_IN_A_LOOK, PERIOD_S, SAMPLE, SAMPLE_PERIOD_S, Tail
from console.messages.topic_log import Page

DECODER = RecordDecoder("topic", "auto", "auto")


class GrowingLog:
    """One partition, with as many records more in each look as `growth` says. Its records are their offsets."""

    def __init__(self):
        self.ranges = {0: Range(0, 0)}
        self.growth = []
        self.batch_size = 50

    async def refresh_ends(self):
        self.ranges[0] = Range(0, self.ranges[0].end + self.growth.pop(0))

    async def newer(self, begin, limit, *, is_whole):
        high = min(begin[0] + limit, self.ranges[0].end)
        return Page(list(range(begin[0], high)), begin, {0: high})

    async def batches(self, at, limit):
        begin = at[0] - at[0] % self.batch_size
        return [SimpleNamespace(partition=0, offset=begin + one, key=None, value=None) for one in range(limit)]


def tail_of(query):
    log = GrowingLog()
    return log, Tail(SimpleNamespace(log=log, begin={}), RecordFilter.of(query, DECODER))


async def looks(log, tail, growth):
    """What each look shows and skips, and the time until the next one."""
    log.growth = list(growth)
    found = [(await tail.look(), tail.period_s) for _ in growth]
    return [(len(look.records), look.skipped, period) for look, period in found]


async def test_a_fast_topic_becomes_a_sample_and_a_slow_one_is_whole_again():
    log, tail = tail_of({})
    assert await looks(log, tail, [50, 5000, 5000, 20_000, 400, 30]) == [
        (50, 0, PERIOD_S),
        (MOST_IN_A_LOOK, 4900, PERIOD_S),
        (SAMPLE, 5000 - SAMPLE, SAMPLE_PERIOD_S),
        (SAMPLE, 20_000 - SAMPLE, SAMPLE_PERIOD_S),
        (MOST_IN_A_LOOK, 300, PERIOD_S),
        (30, 0, PERIOD_S),
    ]
    assert tail.at == {0: log.ranges[0].end}


async def test_a_sample_shows_no_record_twice():
    log, tail = tail_of({})
    log.batch_size = 10_000
    assert await looks(log, tail, [5000, 4000]) == [
        (MOST_IN_A_LOOK, 4900, PERIOD_S),
        (0, 4000, SAMPLE_PERIOD_S),
    ]


async def test_a_tail_with_a_filter_reads_more_than_a_sample():
    log, tail = tail_of({"key": "x"})
    read = []
    newer = log.newer

    async def noted(begin, limit, *, is_whole):
        read.append(limit)
        return (await newer(begin, limit, is_whole=is_whole))._replace(records=[])

    log.newer = noted
    assert [one[2] for one in await looks(log, tail, [5000, 5000])] == [PERIOD_S, SAMPLE_PERIOD_S]
    assert read == [MOST_IN_A_LOOK, MOST_IN_A_LOOK]

"""The texts of `--offset`, and the offsets that they mean in a partition whose last records are gone."""

import random

import pytest

from client.consumer.reader import Reader
from client.topic_partition import TopicPartition
from ottla.command_line.failure import CommandError
from ottla.records.offset_range import BEGINNING, END, Anchor, Edge, OffsetRange, parse_range, resolve
from ottla.records.reading import Source, read_range
from ottla.records.record_printer import RecordPrinter
from ottla.records.topic_selection import TopicSelection
from protocol.record_batch_builder import RecordBatchBuilder
from support.fake_broker import FakeBroker

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
T0 = TopicPartition("t", 0)


def at(number):
    return Edge(Anchor.OFFSET, number)


def time(ms):
    return Edge(Anchor.TIME, ms)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("10", at(10), None),
        ("10:", at(10), None),
        ("10:20", at(10), at(20)),
        (":20", BEGINNING, at(20)),
        (":", BEGINNING, None),
        ("start", BEGINNING, None),
        ("beginning:end", BEGINNING, END),
        ("end", END, None),
        (":end", BEGINNING, END),
        ("-5", Edge(Anchor.END, 5), None),
        ("-5:", Edge(Anchor.END, 5), None),
        ("-5:-2", Edge(Anchor.END, 5), Edge(Anchor.END, 2)),
        ("+3:+5", Edge(Anchor.START, 3), Edge(Anchor.START, 5)),
        ("@1700000000000", time(1_700_000_000_000), None),
        ("@1970-01-01T00:00:01+00:00", time(1000), None),
        ("@1970-01-01T00:00:01Z:@1970-01-01T00:00:02Z", time(1000), time(2000)),
        ("@-1h:", time(NOW_MS - HOUR_MS), None),
        ("@-1h30m", time(NOW_MS - HOUR_MS * 3 // 2), None),
        ("@-2d:@-500ms", time(NOW_MS - 48 * HOUR_MS), time(NOW_MS - 500)),
        ("@-1h:end", time(NOW_MS - HOUR_MS), END),
        (":@-1h", BEGINNING, time(NOW_MS - HOUR_MS)),
        ("7:@-1h", at(7), time(NOW_MS - HOUR_MS)),
    ],
)
def test_ranges(text, start, end):
    assert parse_range(text, "-o", NOW_MS) == OffsetRange(start, end)


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("middle", "'middle' must be a number"),
        ("1:x", "-o '1:x': 'x' must be"),
        ("20:10", "the end is before the start"),
        ("-2:-5", "the end is before the start"),
        ("@-1h:@-2h", "the end is before the start"),
        ("@yesterday", "-o 'yesterday' is not a time"),
        ("@10m", "before now such as -1h30m"),
        ("@-2h:-1h", "needs its own @"),
        ("@", "is not a time"),
        ("1:2:3", "'2:3' must be"),
    ],
)
def test_what_is_no_range(text, clue):
    with pytest.raises(CommandError, match=clue):
        parse_range(text, "-o", NOW_MS)


@pytest.fixture
async def fake():
    """Offsets 5 to 14 are left; those from 10 on hold no records any more, as compaction leaves a batch."""
    async with FakeBroker({"t": 1}) as broker:
        builder = RecordBatchBuilder(base_offset=0)
        for offset in range(5):
            builder.append(1000 * offset, b"k", b"%d" % offset)
        broker.append("t", 0, builder.build())
        builder = RecordBatchBuilder(base_offset=5)
        for offset in range(5, 10):
            builder.append(1000 * offset, b"k", b"%d" % offset)
        broker.append("t", 0, builder.build(last_offset=14))
        broker.next_offsets["t", 0] = 15
        yield broker


async def read(fake, text, capsysbinary, **options):
    printer = RecordPrinter(lambda record: record.value, None, options.get("count"))
    source = Source(TopicSelection(["t"], is_regex=False), fake.address, "read_uncommitted")
    await read_range(source, parse_range(text, "-o", NOW_MS), printer, follow=options.get("follow", False))
    return capsysbinary.readouterr().out.decode()


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (":", "0123456789"),
        ("3:7", "3456"),
        ("8:12", "89"),
        ("-8:-6", "78"),
        ("+2:+3", "2"),
        ("11:14", ""),
        ("11:", ""),
        ("7:99", "789"),
    ],
)
async def test_a_range_ends_where_compaction_has_removed_its_last_records(fake, text, printed, capsysbinary):
    assert await read(fake, text, capsysbinary) == printed


async def test_a_range_that_is_followed_ends_at_its_end(fake, capsysbinary):
    assert await read(fake, "8:12", capsysbinary, follow=True) == "89"


async def test_a_followed_start_after_the_end_is_waited_for(fake):
    async with Reader(bootstrap_servers=fake.address, random=random.Random(1)) as reader:
        spans = await resolve(OffsetRange(at(20)), reader, [T0], follow=True)
        assert spans == {T0: (15, 20, None)}
        spans = await resolve(OffsetRange(at(20)), reader, [T0], follow=False)
        assert spans == {T0: (15, 20, 15)}

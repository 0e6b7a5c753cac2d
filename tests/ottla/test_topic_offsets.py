"""`ottla topics offsets`."""

import itertools

import pytest

TIMES = (1_770_000_000_000, 1_790_000_000_000, 1_780_000_000_000)
numbers = itertools.count(1)


@pytest.fixture
def topic(on):
    """A topic of two partitions; the first one has a record of each of the times."""
    name = f"located{next(numbers)}"
    on("topics", "create", name, "-p", 2)
    for time in TIMES:
        on("produce", name, "-p", 0, "--timestamp", time, stdin=b"x\n")
    return name


def test_offsets(on, topic):
    for words, offset, timestamp in [
        ((), 3, None),
        (("--at", "latest"), 3, None),
        (("--at", "earliest"), 0, None),
        (("--at", "max-timestamp"), 1, TIMES[1]),
        (("--at", TIMES[0] + 1), 1, TIMES[1]),
        (("--at", "2026-01-01"), 0, TIMES[0]),
        (("--at", "2200-01-01"), None, None),
        (("--at", "-9000w"), 0, TIMES[0]),
    ]:
        first, second = on("topics", "offsets", topic, *words, "--json").json
        assert first == {"topic": topic, "partition": 0, "offset": offset, "timestamp": timestamp}
        assert (second["partition"], second["timestamp"]) == (1, None)


def test_several_topics(on, topic):
    assert on("topics", "offsets", "--regex", f"{topic}|nosuch").err == ""
    lines = on("topics", "offsets", topic).out.splitlines()
    assert [line.split() for line in lines] == [
        ["topic", "partition", "offset", "timestamp"],
        [topic, "0", "3", "-"],
        [topic, "1", "0", "-"],
    ]
    assert topic in {one["topic"] for one in on("topics", "offsets", "--json").json}


def test_errors(on, topic):
    assert f"did you mean {topic}" in on("topics", "offsets", f"{topic}x", code=1).err
    assert "--at 'soon' is not a time" in on("topics", "offsets", topic, "--at", "soon", code=1).err

"""`ottla topics trim`."""

import sys

import pytest

from support.deadlines import DEADLINE_S
from support.names import name_for
from support.terminal import Terminal

TIMES = ("2026-01-01T00:00Z", "2026-02-01T00:00Z", "2026-03-01T00:00Z")


@pytest.fixture
def topic(on, request):
    """A topic of two partitions; each has one record of each of the times."""
    name = name_for(request, "trimmed")
    on("topics", "create", name, "-p", 2)
    for partition in (0, 1):
        for time in TIMES:
            on("produce", name, "-p", partition, "--timestamp", time, stdin=b"x\n")
    return name


def offsets(document):
    return [(one["partition"], one["start_offset"], one["new_start_offset"], one["end_offset"]) for one in document]


def starts(on, topic):
    [described] = on("topics", "describe", topic, "--json").json
    return [one["start_offset"] for one in described["partitions"]]


def test_to_an_offset(on, topic):
    dry = on("topics", "trim", topic, "--to-offset", 2, "--dry-run", "--json")
    assert offsets(dry.json) == [(0, 0, 2, 3), (1, 0, 2, 3)]
    assert dry.err == "nothing was changed: this is a dry run\n"
    assert starts(on, topic) == [0, 0]
    done = on("topics", "trim", topic, "--to-offset", 2, "-p", 1)
    assert done.out.split()[-6:] == [topic, "1", "0", "2", "3", "2"]
    assert done.err == "2 offsets of 1 partition deleted\n"
    assert starts(on, topic) == [0, 2]
    again = on("topics", "trim", topic, "--to-offset", 1, "--json")
    assert [one["deleted_offsets"] for one in again.json] == [1, 0]
    assert starts(on, topic) == [1, 2]
    assert on("topics", "trim", topic, "--to-offset", 1).err == "there is nothing to delete\n"


def test_an_offset_after_the_end_is_the_end(on, topic):
    done = on("topics", "trim", topic, "--to-offset", 9, "-p", 0)
    assert f"{topic}-0: 9 is after the end of the log, which is 3\n" in done.err
    assert starts(on, topic) == [3, 0]


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (("--to-time", "2026-02-01T00:00Z"), 1),
        (("--to-time", "2026-02-01T00:00:00.001Z"), 2),
        (("--to-time", "2100-01-01"), 3),
        (("--older-than", "P50000D"), 0),
        (("--older-than", "0s"), 3),
        (("--to-time", "-1s"), 3),
        (("--to-end",), 3),
    ],
)
def test_to_a_time(on, topic, words, start):
    on("topics", "trim", topic, *words)
    assert starts(on, topic) == [start, start]


def test_offsets_from_a_file(on, topic, tmp_path):
    file = tmp_path / "offsets.json"
    entries = ", ".join(f'{{"topic": "{topic}", "partition": {p}, "offset": {o}}}' for p, o in ((0, -1), (1, 1)))
    file.write_text(f'{{"version": 1, "partitions": [{entries}]}}')
    assert offsets(on("topics", "trim", "--from-file", file, "--json").json) == [(0, 0, 3, 3), (1, 0, 1, 3)]
    assert starts(on, topic) == [3, 1]
    file.write_text('{"partitions": [{"topic": "nosuch", "partition": 0, "offset": 0}]}')
    assert f"{file}: unknown topic nosuch" in on("topics", "trim", "--from-file", file, code=1).err
    file.write_text('{"partitions": [{"topic": "x", "partition": 0, "offset": -2}]}')
    assert "offset -2 must be a number from -1" in on("topics", "trim", "--from-file", file, code=1).err


def test_a_person_is_asked(on, topic):
    command = [sys.executable, "-m", "ottla", "topics", "trim", topic, "--to-offset", "1"]
    for keys, said, code in (("\n", "not confirmed", 1), ("y\n", "2 offsets of 2 partitions deleted", 0)):
        with Terminal(command) as terminal:
            terminal.wait_for("Delete 2 offsets of 2 partitions? [y/N]")
            assert starts(on, topic) == [0, 0]
            terminal.type(keys)
            terminal.wait_for(said)
            assert terminal.process.wait(DEADLINE_S) == code
    assert starts(on, topic) == [1, 1]


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("{}",), "give one of --to-offset, --to-time, --older-than, --to-end and --from-file"),
        (("{}", "--to-offset", 1, "--to-end"), "cannot be used together"),
        (("--to-end",), "give a topic, or --from-file"),
        (("{}", "--from-file", "x"), "give a topic, or --from-file"),
        (("{}", "--to-time", "soon"), "--to-time 'soon' is not a time"),
        (("{}", "--older-than", "soon"), "--older-than 'soon' is not a duration"),
        (("{}", "--to-end", "-p", 7), "has partitions 0 to 1, not 7"),
        (("{}x", "--to-end"), "did you mean {}?"),
    ],
)
def test_refused(on, topic, words, clue):
    assert clue.format(topic) in on("topics", "trim", *(str(word).format(topic) for word in words), code=1).err

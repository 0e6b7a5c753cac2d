"""`ottla consume`: which records it prints: topics, ranges, filters. Formats are in records/test_record_format.py."""

import asyncio
import contextlib
import signal
import subprocess
import sys

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from ottla.records.topic_selection import TopicSelection
from support.deadlines import DEADLINE_S
from support.names import name_for
from support.polling import until_blocking


@pytest.fixture
def topic(on, request):
    name = name_for(request, "c")
    on("topics", "create", name, "-p", 1)
    return name


@pytest.fixture(scope="module")
def numbers(broker):
    """A topic that the cases share: the values 0 to 5, of the seconds 0 to 5 of 1970."""
    name = "numbers"

    async def fill():
        async with Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic(name, 1, configs={"retention.ms": "-1"})
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(6):
                await producer.send(name, b"%d" % number, timestamp_ms=1000 * number)

    asyncio.run(fill())
    return name


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ("2:4", "23"),
        (":2", "01"),
        ("4:", "45"),
        ("-2:", "45"),
        ("-3:-1", "34"),
        ("+1:+3", "12"),
        ("@2000:@4000", "23"),
        ("@1970-01-01T00:00:02+00:00:@1970-01-01T00:00:03.5+00:00", "23"),
        ("@4500:", "5"),
        (":@-1h", "012345"),
        ("@-1h", ""),
        ("4:99", "45"),
        ("6:9", ""),
    ],
)
def test_ranges(on, numbers, wanted, printed):
    assert "".join(on("consume", numbers, "-o", wanted).out.split()) == printed


def test_several_topics(on, topic):
    other = f"{topic}-other"
    on("topics", "create", other, "-p", 2)
    on("produce", topic, stdin=b"one\n")
    on("produce", other, "-p", 1, stdin=b"two\n")
    assert sorted(on("consume", topic, other, topic, "--format", r"%t %p %s\n").out.splitlines()) == [
        f"{topic} 0 one",
        f"{other} 1 two",
    ]
    assert f"unknown topic {topic}-x" in on("consume", topic, f"{topic}-x", code=1).err
    assert f"topic {topic} has partitions 0 to 0, not 1" in on("consume", other, topic, "-p", 1, code=1).err


def test_regular_expressions_match_whole_names(on, topic):
    for name in ("a1", "a2", "b1"):
        on("produce", f"{topic}.{name}", stdin=f"{name}\n".encode())
    assert sorted(on("consume", "-r", rf"{topic}\.a.").out.split()) == ["a1", "a2"]
    assert sorted(on("consume", "-r", rf"{topic}\.a1", rf"{topic}\.b.*").out.split()) == ["a1", "b1"]
    assert on("consume", "-r", rf"{topic}\.b.*", "-g", topic, "--from-beginning", "-n", 1).out == "b1\n"
    assert on("consume", "-r", f"{topic}.a", code=1).err == (
        f"ottla: no topic has a name that matches '{topic}.a' (whole names; internal topics do not count)\n"
    )
    assert "--regex '(' is not a regular expression" in on("consume", "-r", "(", code=1).err


@pytest.mark.parametrize("words", [("--follow",), ("--group", "new-topics-group", "--from-beginning")])
def test_topics_that_are_created_later_are_read(on, topic, tmp_path, words):
    command = [sys.executable, "-m", "ottla", "consume", "--regex", rf"{topic}\..*", *words]
    on("produce", f"{topic}.old", stdin=b"before\n")
    out = tmp_path / "out"
    with out.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE) as process:
        try:

            def reads_the_old_topic():
                on("produce", f"{topic}.old", "-q", stdin=b"seen\n")
                return b"seen\n" in out.read_bytes()

            until_blocking(reads_the_old_topic, "it reads the topic that exists")
            on("produce", f"{topic}.new", stdin=b"first of the new topic\n")
            until_blocking(lambda: b"first of the new topic\n" in out.read_bytes(), "it reads the new topic")
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=DEADLINE_S)[1] == b""
        finally:
            process.kill()
    assert process.returncode == 130


def test_a_failed_search_for_new_topics_ends_the_command(on, topic, monkeypatch):
    async def fails(*_):
        raise OSError("the search failed")

    monkeypatch.setattr(TopicSelection, "find_again", fails)
    monkeypatch.setattr("ottla.records.reading.NEW_TOPICS_INTERVAL_S", 0)
    on("produce", topic, stdin=b"one\n")
    result = on("consume", topic, "--follow", code=1)
    assert "the search failed" in result.err


def test_the_end_of_a_range_may_be_a_transaction_marker(on, topic, broker):
    async def write():
        async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
            for value in (b"kept", b"aborted"):
                with contextlib.suppress(RuntimeError):
                    async with producer.transaction():
                        await producer.send(topic, value, partition=0)
                        if value == b"aborted":
                            raise RuntimeError

    asyncio.run(write())
    assert on("consume", topic).out == "kept\naborted\n"
    assert on("consume", topic, "--isolation-level", "read_committed").out == "kept\n"
    assert on("consume", topic, "-o", "1:2").out == ""
    assert on("consume", topic, "-o", "0:2", "--follow").out == "kept\n"
    assert on("consume", topic, "-o", "2:4", "--isolation-level", "read_committed").out == ""


def test_filters(on, topic):
    send = ("produce", topic, "-q", "-K", ":", "-Z", "NULL")
    on(*send, "-H", "source=web", stdin=b"alice:two apples\nbob:a pear\n")
    on(*send, "-H", "source=shop", "-H", "note", stdin="alina:três maçãs\nNULL:NULL\n".encode())

    def read(*words):
        return on("consume", topic, "--format", "%k ", "-Z", "NULL", *words).out.split()

    assert read("--grep", "apple|pear") == ["alice", "bob"]
    assert read("--grep", "ma[çx]ãs$") == ["alina"]
    assert read("--key", "^al") == ["alice", "alina"]
    assert read("--header", "source=shop") == ["alina", "NULL"]
    assert read("--header", "note") == ["alina", "NULL"]
    assert read("--header", "source=shop", "--header", "note=x") == []
    assert read("--key", "^al", "--grep", "ma") == ["alina"]
    assert read("--key", "a", "-n", 1) == ["alice"]
    assert read("--grep", "maç", "-n", 1) == ["alina"]
    assert (
        on("consume", topic, "--key", "al", "-n", 2, "-g", topic, "--from-beginning").out == "two apples\ntrês maçãs\n"
    )


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("--grep", "("), "--grep '(' is not a regular expression"),
        (("--key", "["), "--key '[' is not a regular expression"),
        (("--header", "=x"), "--header '=x' must be NAME=VALUE"),
        (("-o", "1:", "--timestamp", "5"), "one of --from-beginning"),
        (("-o", "1:@5", "-f"), "--follow cannot be used with an END that is a time"),
        (("-o", "20:10"), "the end is before the start"),
        (("-g", "g", "-o", "1"), "--group cannot be used with --offset or --timestamp"),
        (("-g", "g", "-p", "0"), "--group cannot be used with --partition"),
        (("--timestamp", "soon"), "--timestamp 'soon' is not a time"),
    ],
)
def test_options_that_are_refused(on, words, clue):
    assert clue in on("consume", "whatever", *words, code=1).err

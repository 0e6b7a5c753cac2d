"""`ottla produce` and `ottla consume`: bytes in, the same bytes out."""

import os
import random
import select
import signal
import subprocess
import sys

import pytest

from ottla.command_line.failure import CommandError
from ottla.command_line.options import parse_size, parse_time, unescape
from support.deadlines import DEADLINE_S
from support.names import name_for
from support.polling import until_blocking


@pytest.fixture
def topic(on, request):
    name = name_for(request, "t")
    on("topics", "create", name, "-p", 1)
    return name


def test_lines_in_lines_out(on, topic):
    result = on("produce", topic, stdin=b"one\n\ntwo\nlast without newline")
    assert result.err == f"4 records written to {topic}\n"
    assert result.out == ""
    assert on("consume", topic).out == "one\n\ntwo\nlast without newline\n"
    assert on("produce", topic, "-q", stdin=b"").err == ""


def test_any_bytes_survive(on, topic, tmp_path):
    rng = random.Random(3)
    lines = [rng.randbytes(rng.randrange(3000)).replace(b"\n", b"") for _ in range(500)]
    file = tmp_path / "lines"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    on("produce", topic, file, "-z", "lz4")
    assert on("consume", topic).raw == file.read_bytes()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(on, topic, compression, broker):
    on("produce", topic, "-z", compression, stdin=b"abc\n" * 100)
    assert on("consume", topic).raw == b"abc\n" * 100
    segment = broker.log_dir / f"{topic}-0" / ("0" * 20 + ".log")
    batches = [entry for entry in on("dump-log", "--json", segment).lines if entry["type"] == "batch"]
    assert {batch["compression"] for batch in batches} == {compression}


def test_keys_headers_nulls_partition_and_time(on):
    on("topics", "create", "full", "-p", 3)
    on(
        "produce", "full", "-K", r"\t", "-Z", "~", "-p", 2, "-H", "a=1", "-H", "a=", "-H", "n", "--timestamp", 1234,
        stdin=b"k1\tv1\n~\tv2\tv3\nk3\t~\n\t\n",
    )  # fmt: skip
    records = on("consume", "full", "--json").lines
    assert [(one["key"], one["value"]) for one in records] == [("k1", "v1"), (None, "v2\tv3"), ("k3", None), ("", "")]
    assert {one["partition"] for one in records} == {2}
    assert {one["timestamp"] for one in records} == {1234}
    assert records[0]["headers"] == [["a", "1"], ["a", ""], ["n", None]]
    shown = on("consume", "full", "-Z", "NULL", "--format", r"%t %p %o %T %K:%k %S:%s %h %%\x21\n").out.splitlines()
    assert shown[0] == "full 2 0 1234 2:k1 2:v1 a=1,a=,n=NULL %!"
    assert shown[1] == "full 2 1 1234 -1:NULL 5:v2\tv3 a=1,a=,n=NULL %!"
    assert shown[2] == "full 2 2 1234 2:k3 -1:NULL a=1,a=,n=NULL %!"
    result = on("produce", "full", "-K", ":", stdin=b"a:1\nno separator\n", code=1)
    assert result.err == "ottla: line 2 has no key separator ':'; 1 record written to full\n"
    assert on("consume", "full", "-o", -1, "--format", "%k %s\n").out.startswith("a 1\n")


def test_same_key_for_all(on, topic):
    on("produce", topic, "-k", "mine", stdin=b"a\nb\n")
    assert [one["key"] for one in on("consume", topic, "--json").lines] == ["mine", "mine"]


def test_json_is_safe_for_any_bytes(on, topic):
    on("produce", topic, stdin=b"\xff\xfe\n\xc3\xa9\n")
    first, second = on("consume", topic, "--json").lines
    assert first["value"] == {"base64": "//4="}
    assert second["value"] == "é"
    assert first["timestamp_type"] == "CreateTime"


def test_where_to_start(on, topic):
    for number in range(6):
        on("produce", topic, "-q", "--timestamp", 1_000 * number, stdin=b"%d\n" % number)

    def read(*words):
        return on("consume", topic, *words).out.split()

    assert read() == read("--from-beginning") == read("-o", "beginning") == list("012345")
    assert read("-o", 4) == list("45")
    assert read("-o", -2) == list("45")
    assert read("-o", -99) == list("012345")
    assert read("-o", "end") == []
    assert read("--timestamp", 2500) == list("345")
    assert read("--timestamp", "1970-01-01T00:00:05+00:00") == list("5")
    assert read("--timestamp", 9_999_999) == []
    assert read("-c", 2) == list("01")
    assert read("-c", 0) == []
    assert read("-o", 99) == []
    on("topics", "create", f"{topic}-two", "-p", 2)
    on("produce", f"{topic}-two", "-p", 0, stdin=b"x\n")
    on("produce", f"{topic}-two", "-p", 1, stdin=b"y\n")
    assert on("consume", f"{topic}-two", "-p", 1).out == "y\n"
    assert sorted(on("consume", f"{topic}-two", "-p", 1, "-p", 0).out.split()) == ["x", "y"]


def test_follow_from_the_end_with_count(on, topic, broker):
    on("produce", topic, stdin=b"old\n")
    command = [sys.executable, "-m", "ottla", "consume", topic, "-f", "-c", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    with process:

        def ends():
            """Whether it has ended; what is written before it knows the end is not for it, so there is always more."""
            on("produce", topic, "-q", "--acks", "1", stdin=b"new\n")
            select.select([process.stdout], [], [], 0.2)
            return process.poll() is not None

        until_blocking(ends, "two new records")
        lines = process.stdout.read().split()
    assert process.returncode == 0
    assert lines == [b"new", b"new"]


def test_interrupt_ends_following_quietly(on, topic):
    on("produce", topic, stdin=b"first\n")
    command = [sys.executable, "-m", "ottla", "consume", topic, "-f", "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"first\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert err == b""


def test_a_reader_that_goes_away_is_no_error(on, topic):
    on("produce", topic, stdin=(b"x" * 999 + b"\n") * 1000)  # more than a pipe holds
    command = f"'{sys.executable}' -m ottla consume {topic} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=DEADLINE_S)
    assert (done.stdout, done.stderr) == (b"x" * 999 + b"\n", b"")


def test_a_group_remembers_where_it_was(on, topic):
    on("produce", topic, stdin=b"1\n2\n3\n4\n5\n")
    assert on("consume", topic, "--group", topic, "--from-beginning", "--count", 2).out == "1\n2\n"
    assert on("consume", topic, "-g", topic, "--from-beginning", "-c", 2).out == "3\n4\n"
    command = [sys.executable, "-m", "ottla", "consume", topic, "-g", topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"5\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=DEADLINE_S) == (b"", b"")
    assert process.returncode == 130
    [described] = on("groups", "describe", topic, "--json").json
    assert (described["state"], [one["committed_offset"] for one in described["partitions"]]) == ("Empty", [5])
    refused = on("consume", topic, "-g", topic, "--offset", 1, code=1)
    assert "--group cannot be used with" in refused.err
    assert "unknown topic nowhere" in on("consume", "nowhere", "-g", topic, code=1).err


def test_topic_is_created_on_first_use(on):
    on("produce", "made-by-use", stdin=b"x\n")
    assert on("consume", "made-by-use").out == "x\n"


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("consume", "nosuch-topic"), "unknown topic nosuch-topic"),
        (("consume", "TOPIC", "-p", 9), "partitions 0 to 0, not 9"),
        (("consume", "TOPIC", "-o", "middle"), "--offset 'middle'"),
        (("consume", "TOPIC", "-o", "1", "--from-beginning"), "one of --from-beginning"),
        (("consume", "TOPIC", "--timestamp", "yesterday"), "--timestamp 'yesterday'"),
        (("consume", "TOPIC", "--format", "%q"), "%q must be one of"),
        (("consume", "TOPIC", "--format", r"\q"), "--format"),
        (("consume", "TOPIC", "--json", "--format", "%s"), "cannot be used together"),
        (("consume", "TOPIC", "--isolation-level", "none"), "isolation_level='none'"),
        (("consume", "TOPIC", "-c", "-1"), "--count"),
        (("produce", "TOPIC", "-z", "brotli"), "='brotli': must be one of none, gzip, snappy, lz4, zstd\n"),
        (("produce", "TOPIC", "-a", "2"), "acks='2': must be one of all, -1, 0, 1\n"),
        (("produce", "TOPIC", "-p", "3"), "partitions 0 to 0, not 3"),
        (("produce", "TOPIC", "/no/such/file"), "/no/such/file: No such file"),
        (("produce", "TOPIC", "-K", ""), "--key-separator must not be empty"),
        (("produce", "bad name"), "topic bad name: INVALID_TOPIC_EXCEPTION: a name has 1 to 249 letters"),
        (("consume", "bad name"), "topic bad name: INVALID_TOPIC_EXCEPTION: a name has 1 to 249 letters"),
        (("produce",), "topic"),
    ],
)
def test_bad_values(on, topic, words, clue):
    words = [topic if word == "TOPIC" else word for word in words]
    assert clue.lower() in on(*words, code=1).err.lower()


def test_a_record_the_broker_refuses(on, topic):
    on("configs", "alter", "--topic", topic, "--set", "max.message.bytes=1000")
    result = on("produce", topic, stdin=b"small\n" + bytes(5000) + b"\nsmall\n", code=1)
    assert result.err == (
        f"ottla: line 2: {topic}-0: MESSAGE_TOO_LARGE: the batch has 5070 bytes;"
        f" max.message.bytes of {topic} is 1000; 2 of 3 records written to {topic}\n"
    )
    assert f"max.message.bytes of {topic} is 1000" in on("perf", "produce", topic, "-n", 1, "-s", "2k", code=1).err


def test_nobody_answers(ottla):
    for words in (("topics", "list"), ("produce", "t"), ("consume", "t"), ("perf", "produce", "t")):
        result = ottla(*words, "-b", "127.0.0.1:1", code=1)
        assert "no broker answers at 127.0.0.1:1 (Connection refused)" in result.err
        assert "ottla broker" in result.err


def test_values_of_options():
    assert [parse_size(text, "-s") for text in ("7", "2k", "2KB", "1m")] == [7, 2048, 2048, 1024**2]
    with pytest.raises(CommandError, match="-s '1x'"):
        parse_size("1x", "-s")
    assert parse_time("1970-01-01T00:00:01.5+00:00", "-t") == 1500
    assert unescape(r"a\t\x00\\n\0é", "-f") == b"a\t\x00\\n\0\xc3\xa9"

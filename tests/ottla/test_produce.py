"""`ottla produce` with JSON and templates, against a broker."""

import json

import pytest

from support.names import name_for


@pytest.fixture
def topic(on, request):
    name = name_for(request, "p")
    on("topics", "create", name, "-p", 3, "--config", "retention.ms=-1")
    return name


def lines(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_a_topic_is_copied_exactly(on, topic):
    on(
        "produce",
        topic,
        "-p",
        2,
        "-H",
        "h=\udcff",
        "-H",
        "n",
        "--timestamp",
        5,
        stdin=b'{"a": 1.50}\n{"a":1}\nx\xff\n\n',
    )
    on("produce", topic, "-K", ":", "-Z", "NULL", stdin=b'[1]:"text"\nNULL:NULL\n:\nk:{"base64":"AA=="}\n')
    copy = f"{topic}-copy"
    on("topics", "create", copy, "-p", 3, "--config", "retention.ms=-1")
    printed = on("consume", topic, "--json").raw
    assert on("produce", copy, "--json", stdin=printed).err == f"8 records written to {copy}\n"
    fields = ("--format", r"%p@%o %T %K:%k{hex} %S:%v{hex} %h{%k=%v{hex};}\n", "-Z", "NULL")
    original = sorted(on("consume", topic, *fields).out.splitlines())
    assert sorted(on("consume", copy, *fields).out.splitlines()) == original
    assert len(original) == 8


def test_records_name_their_topics(on, topic):
    other = f"{topic}-other"
    records = [{"topic": topic, "value": {"a": 1}, "partition": 1}, {}, {"topic": other, "key": "k", "value": "v"}]
    records[1] = {"topic": topic, "key": 7, "headers": {"h": "x"}, "timestamp": 9}
    assert on("produce", "--json", stdin=lines(*records)).err == "3 records written to 2 topics\n"
    assert on("consume", topic, "-p", 1, "--format", "%v").out == '{"a":1}'
    [tombstone] = on("consume", topic, "--json", "--key", "^7$").lines
    assert (tombstone["value"], tombstone["headers"], tombstone["timestamp"]) == (None, [["h", "x"]], 9)
    assert on("consume", other, "--format", "%k %v").out == "k v"


def test_a_bad_line_ends_the_command_after_the_records_before_it(on, topic):
    good = lines({"value": 1, "partition": 0}) + b"\n"
    for bad, clue in (
        (b'{"value": 1', "line 3 is not JSON: Expecting ',' delimiter at column 12"),
        (b'{"values": 1}', "line 3 has the unknown field 'values' (did you mean value?)"),
        (b'{"partition": 3}', f"line 3 names partition 3, but topic {topic} has partitions 0 to 2"),
    ):
        failed = on("produce", topic, "--json", stdin=good + bad + b"\n" + good, code=1)
        assert failed.err == f"ottla: {clue}; 1 record written to {topic}\n"
    assert on("consume", topic).out == "1\n1\n1\n"
    unknown = on("produce", "--json", stdin=good, code=1).err
    assert unknown == "ottla: line 1 names no topic, and the command has no TOPIC\n"


def test_a_refused_record_is_named_by_its_line_of_json(on, topic):
    on("configs", "alter", "--topic", topic, "--set", "max.message.bytes=1000")
    big = {"topic": topic, "value": "x" * 5000, "partition": 0}
    failed = on("produce", "--json", stdin=b"\n" + lines({**big, "value": "x"}) + b"\n" + lines(big), code=1).err
    assert failed.startswith(f"ottla: line 4: {topic}-0: MESSAGE_TOO_LARGE")
    assert failed.endswith(f"max.message.bytes of {topic} is 1000; 1 of 2 records written to {topic}\n")


def test_generated_records(on, topic):
    words = ("produce", topic, "-p", 0, "--template", '{"id": {n}, "user": "{uuid}"}', "--key", "user-{n}", "--seed", 4)
    assert on(*words, "--count", 1201).err == f"1201 records written to {topic}\n"
    records = on("consume", topic, "--json").lines
    assert [one["value"]["id"] for one in records] == list(range(1, 1202))
    assert records[6]["key"] == "user-7"
    assert len({one["value"]["user"] for one in records}) == 1201
    assert on(*words).err == f"10 records written to {topic}\n"
    assert [one["value"] for one in on("consume", topic, "--json", "-o", "-10").lines] == [
        one["value"] for one in records[:10]
    ]
    on("produce", topic, "--json", "--template", '{"key": "{n}", "partition": 1, "value": [{n}]}', "-n", 2)
    assert on("consume", topic, "-p", 1, "--format", "%k%v ").out == "1[1] 2[2] "
    failed = on("produce", topic, "--json", "--template", '{"partition": {n}}', code=1).err
    assert (
        failed
        == f"ottla: record 3 names partition 3, but topic {topic} has partitions 0 to 2; 2 records written to {topic}\n"
    )


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        ((), "the topic is missing: only lines of JSON (--json) can name it"),
        (("t", "--json", "-K", ":"), "--json and --key-separator cannot be used together"),
        (("t", "--json", "-Z", "NULL"), "--json and --null-marker cannot be used together"),
        (("t", "-n", "5"), "--count and --seed need --template"),
        (("t", "file", "--template", "{n}"), "--template and a file cannot be used together"),
        (("t", "--template", "{id}"), "--template: {id} is not a placeholder"),
        (("t", "--template", "{n}", "--key", "{id}"), "--key: {id} is not a placeholder"),
    ],
)
def test_options_that_are_refused(on, words, clue):
    assert clue in on("produce", *words, code=1).err

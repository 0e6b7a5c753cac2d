"""`ottla groups`, with groups of confluent-kafka's and aiokafka's consumers."""

import asyncio
import contextlib
import itertools
import re
import threading
import time

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, TopicPartition

from client.admin.admin import Admin
from client.producer.producer import Producer
from support.deadlines import DEADLINE_S
from support.json_fields import not_printed, printed_fields
from support.polling import until, until_blocking
from support.zookeeper import new_chroot, shared_zookeeper

numbers = itertools.count(1)


async def make_topic(broker, name):
    """A topic of three partitions with four records in each."""
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topic(name, 3)
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for partition in range(3):
            for number in range(4):
                await producer.send(name, b"%d" % number, partition=partition)


@pytest.fixture(scope="module")
def topic(broker):
    """The topic that all tests read. Each test has its own group."""
    name = f"grouped{next(numbers)}"  # the module may be left and come back to, and the broker stays
    asyncio.run(make_topic(broker, name))
    return name


@pytest.fixture
def group():
    return f"group{next(numbers)}"


def commit(broker, group, offsets):
    """Commit offsets for a group without being a member of it."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    partitions = [TopicPartition(topic, partition, offset) for topic, partition, offset in offsets]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


@contextlib.contextmanager
def confluent_member(broker, group, topic, **settings):
    """The only member of a group; it owns all partitions of a topic."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False, "client.id": "some client"}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    try:
        consumer.subscribe([topic])

        def has_assignment():
            consumer.poll(0.05)
            return len(consumer.assignment()) == 3

        until_blocking(has_assignment, "an assignment")
        yield consumer
    finally:
        consumer.close()


@contextlib.contextmanager
def aiokafka_member(broker, group, topic):
    """The same with aiokafka, in another thread."""
    ready, done = threading.Event(), None
    loop = asyncio.new_event_loop()

    async def live():
        nonlocal done
        done = asyncio.Event()
        async with AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, group_id=group) as consumer:
            await until(lambda: len(consumer.assignment()) == 3, "an assignment")
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
    thread.start()
    try:
        assert ready.wait(DEADLINE_S)
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


def offsets(on, group):
    """The committed offsets of a group, by (topic, partition)."""
    (found,) = on("groups", "describe", group, "--json").json
    return {(row["topic"], row["partition"]): row["committed_offset"] for row in found["partitions"]}


# -- list and describe -------------------------------------------------------------------------------------------------


def test_a_group_with_a_member(on, broker, topic, group):
    with confluent_member(broker, group, topic, group_instance_id="static 1") as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 1, 3)], asynchronous=False)
        described = on("groups", "describe", group, "--json")
        assert not_printed("groups describe", printed_fields(described.out)) == []
        (found,) = described.json
        assert (found["group"], found["state"], found["type"]) == (group, "Stable", "classic")
        assert (found["protocol_type"], found["assignor"], found["coordinator"]) == ("consumer", "range", 0)
        (member,) = found["members"]
        assert member["assignment"] == {topic: [0, 1, 2]}
        assert (member["client_id"], member["instance_id"]) == ("some client", "static 1")
        assert "127.0.0.1" in member["host"]
        keys = ("partition", "committed_offset", "log_end_offset", "lag")
        assert [tuple(row[key] for key in keys) for row in found["partitions"]] == [
            (0, None, 4, None),
            (1, 3, 4, 1),
            (2, None, 4, None),
        ]
        assert {row["member_id"] for row in found["partitions"]} == {member["member_id"]}
        text = on("groups", "describe", group).out
        assert f"{group}  Stable, classic, assignor range, 1 member, total lag 1, coordinator 0\n" in text
        assert found["total_lag"] == 1
        assert f"{topic}:0-2" in text
        listed = {entry["group"]: entry for entry in on("groups", "list", "--json").json}
        assert listed[group]["state"] == "Stable"
        assert listed[group]["protocol_type"] == "consumer"


def test_aiokafka_and_the_filters(on, broker, topic, group):
    commit(broker, f"{group}.empty", [(topic, 0, 1)])
    with aiokafka_member(broker, group, topic):
        (found,) = on("groups", "describe", group, "--json").json
        assert found["members"][0]["assignment"] == {topic: [0, 1, 2]}
        assert found["members"][0]["client_id"].startswith("aiokafka")

        def names(*words):
            return [entry["group"] for entry in on("groups", "list", "--json", *words).json]

        assert group in names("--state", "stable")
        assert f"{group}.empty" not in names("--state", "stable")
        assert names("--state", "EMPTY").count(f"{group}.empty") == 1
        assert {group, f"{group}.empty"} <= set(names("-s", "Empty", "-s", "Stable", "--type", "Classic"))
        assert group not in names("--type", "consumer")
    assert re.search(rf"^{group}\.empty +classic +Empty ", on("groups", "list").out, re.MULTILINE)


def test_lag_without_members(on, broker, topic, group):
    commit(broker, group, [(topic, 0, 1), (topic, 2, 4)])
    (found,) = on("groups", "describe", group, "--json").json
    assert [row["lag"] for row in found["partitions"]] == [3, 0]
    assert (found["state"], found["members"]) == ("Empty", [])
    lines = on("groups", "describe", group).out.splitlines()
    assert lines[0] == f"{group}  Empty, classic, 0 members, total lag 3, coordinator 0"
    assert lines[-1].split() == [topic, "2", "4", "4", "0", "-"]


def test_list_with_lag(on, broker, topic, group):
    commit(broker, group, [(topic, 0, 1), (topic, 2, 3)])
    listed = {entry["group"]: entry for entry in on("groups", "list", "--lag", "--json").json}
    assert (listed[group]["member_count"], listed[group]["total_lag"]) == (0, 4)
    lines = on("groups", "list", "--lag").out.splitlines()
    assert [line.split()[-2:] for line in lines if line.split()[0] == group] == [["0", "4"]]


def test_regular_expressions_select_groups(on, broker, topic, group):
    for name in (f"{group}.rx.a", f"{group}.rx.b"):
        commit(broker, name, [(topic, 0, 1)])

    def names(*words):
        return [entry["group"] for entry in on("groups", *words, "--json").json]

    both = [f"{group}.rx.a", f"{group}.rx.b"]
    assert names("list", "-r", rf"{group}\.rx\..") == names("describe", "--regex", f"{group}.rx.*") == both
    assert names("list", both[1]) == both[1:]
    assert f"unknown group {both[0]}a (did you mean {both[0]}" in on("groups", "list", f"{both[0]}a", code=1).err
    assert names("list", *both, "--state", "Stable") == []
    lines = on("groups", "watch", "-r", f"{group}.rx.*", "--count", 1).out.splitlines()
    assert [line.split()[1] for line in lines] == both
    for words in (("list",), ("describe",), ("watch",)):
        assert f"no group matches '{group}.rx'" in on("groups", *words, "-r", f"{group}.rx", code=1).err
        assert "--regex needs a regular expression" in on("groups", *words, "-r", code=1).err


def test_describe_all(on, broker, topic, group):
    commit(broker, group, [(topic, 0, 1)])
    commit(broker, f"{group}.second", [(topic, 1, 1)])
    found = [entry["group"] for entry in on("groups", "describe", "--json").json]
    assert {group, f"{group}.second"} <= set(found)
    assert found == sorted(found)


# -- reset -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 4),
        (("--to-current",), 2),
        (("--to-offset", 3), 3),
        (("--to-offset", 99), 4),
        (("--shift-by", 1), 3),
        (("--shift-by", -1), 1),
        (("--shift-by", -9), 0),
        (("--to-timestamp", "2000-01-01T00:00"), 0),
        (("--to-timestamp", "9999999999999"), 4),
        (("--to-datetime", "2000-01-01T00:00:00.000"), 0),
        (("--by-duration", "P7D"), 0),
        (("--by-duration", "0s"), 4),
        (("--by-duration", "9000w"), 0),
    ],
)
def test_reset(on, broker, topic, group, words, expected):
    commit(broker, group, [(topic, 0, 2), (topic, 1, 2)])
    dry = on("groups", "reset-offsets", group, "--topic", f"{topic}:0", *words, "--json")
    assert dry.json == [
        {"group": group, "topic": topic, "partition": 0, "current_offset": 2, "new_offset": expected}
    ]  # fmt: skip
    assert "nothing was changed: use --execute" in dry.err
    assert offsets(on, group) == {(topic, 0): 2, (topic, 1): 2}
    done = on("groups", "reset-offsets", group, "--topic", f"{topic}:0", *words, "--execute")
    assert "--execute" not in done.err
    assert offsets(on, group) == {(topic, 0): expected, (topic, 1): 2}
    if 99 in words:
        assert f"{topic}-0: 99 is after the end of the log, which is 4" in done.err


def test_a_reset_by_time_finds_a_record_in_each_partition_or_the_log_end(on, broker, topic, group):
    topic = f"{topic}.late"
    asyncio.run(make_topic(broker, topic))
    on("produce", topic, "--partition", 0, "--timestamp", 5_000_000_000_000, "--quiet", stdin=b"late\n")
    scope = ("--topic", topic, "--to-timestamp", 4_999_999_999_999, "--json")
    dry = on("groups", "reset-offsets", group, *scope)
    assert [row["new_offset"] for row in dry.json] == [4, 4, 4]
    assert f"{topic}-0" not in dry.err
    assert f"{topic}-1: no record at or after this time" in dry.err


def test_reset_creates_a_group_and_all_topics_means_those_with_committed_offsets(on, topic, group):
    dry = on("groups", "reset-offsets", group, "-t", topic, "--to-latest")
    assert f"group {group} did not exist" in dry.err
    assert on("groups", "describe", group, code=1).err.startswith(f"ottla: unknown group {group}")
    on("groups", "reset-offsets", group, "-t", f"{topic}:0", "-t", f"{topic}:2", "--to-latest", "--execute")
    assert offsets(on, group) == {(topic, 0): 4, (topic, 2): 4}
    on("groups", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
    assert offsets(on, group) == {(topic, 0): 0, (topic, 2): 0}


def test_reset_all_groups_leaves_out_groups_with_members(on, broker, topic, group):
    idle = f"{group}.idle"
    commit(broker, idle, [(topic, 0, 1)])
    with confluent_member(broker, group, topic):
        plan = on("groups", "reset-offsets", "--all-groups", "-t", f"{topic}:0", "--to-latest", "--json")
        assert {"group": idle, "topic": topic, "partition": 0, "current_offset": 1, "new_offset": 4} in plan.json
        assert group not in [row["group"] for row in plan.json]
        assert f"group {group} is Stable, skipped\n" in plan.err
    exported = on("groups", "reset-offsets", "--all-groups", "-t", f"{topic}:0", "--to-latest", "--export").out
    assert f"{idle},{topic},0,4\n" in exported


def test_a_time_without_a_zone_is_local_and_the_plan_says_so(on, topic, group, monkeypatch):
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        dry = on("groups", "reset-offsets", group, "-t", topic, "--to-datetime", "2026-01-01T10:00")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "to the first record since 2026-01-01T10:00:00-05:00\n" in dry.err


def test_export_and_from_file(on, broker, topic, group, tmp_path):
    second = f'{group},"second"'
    commit(broker, group, [(topic, 0, 1), (topic, 1, 2)])
    commit(broker, second, [(topic, 2, 3)])
    one, both = tmp_path / "one.csv", tmp_path / "both.csv"
    one.write_bytes(on("groups", "reset-offsets", group, "--all-topics", "--to-current", "--export").raw)
    both.write_bytes(on("groups", "reset-offsets", group, second, "--all-topics", "--to-current", "--export").raw)
    assert one.read_text() == f"{topic},0,1\n{topic},1,2\n"
    assert both.read_text().splitlines()[2] == f'"{group},""second""",{topic},2,3'
    on("groups", "reset-offsets", group, second, "--all-topics", "--to-latest", "--execute")
    on("groups", "reset-offsets", group, "--from-file", one)
    assert offsets(on, group) == {(topic, 0): 4, (topic, 1): 4}
    on("groups", "reset-offsets", group, "--from-file", one, "--execute")
    assert offsets(on, group) == {(topic, 0): 1, (topic, 1): 2}
    assert offsets(on, second) == {(topic, 2): 4}
    on("groups", "reset-offsets", second, "--from-file", both, "--execute")
    assert offsets(on, second) == {(topic, 2): 3}


@pytest.mark.parametrize(
    ("content", "clue"),
    [
        ("{topic},0,1\n{topic},1\n", "line 2: '{topic},1' is not topic,partition,offset or group"),
        ("{topic},0,1\n\n{group},{topic},0,1\n", "line 3: "),
        ("topic,partition,offset\n", "line 1: partition 'partition' must be a number"),
        ("{topic},0,-1\n", "line 1: offset '-1' must be a number from 0 to 9223372036854775807"),
        ("{topic},0,9223372036854775808\n", "line 1: offset"),
        ("{topic},2147483648,0\n", "line 1: partition"),
        (",0,1\n", "line 1: the topic is empty"),
        ("{topic},0,1\n{topic},0,2\n", "line 2: {topic}-0 is already in line 1"),
        ('{topic},0,1\n"{topic},0,2\n', "line 2: "),
        ("{topic},0,1\n{topic}x,0,2\n", "line 2: unknown topic {topic}x (did you mean {topic}"),
        ("{topic},7,1\n", "line 1: topic {topic} has partitions 0 to 2, not 7"),
        ("{group}x,{topic},0,1\n", "has no offsets of group {group} (did you mean {group}x?)"),
        ("\n", "contains no offsets"),
        ("\xff", "is not UTF-8 at byte 0"),
    ],
)
def test_bad_files(on, topic, group, tmp_path, content, clue):
    path = tmp_path / "plan.csv"
    path.write_bytes(content.format(topic=topic, group=group).encode("latin-1"))
    found = on("groups", "reset-offsets", group, "--from-file", path, "--execute", code=1).err.splitlines()[-1]
    assert str(path) in found
    assert clue.format(topic=topic, group=group) in found
    assert "unknown group" in on("groups", "describe", group, code=1).err


def test_an_active_group_keeps_its_offsets(on, broker, topic, group, tmp_path):
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,0\n")
    other = f"{group}.other"
    with confluent_member(broker, group, topic) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        for words in (("--all-topics", "--to-earliest"), ("--from-file", plan)):
            found = on("groups", "reset-offsets", group, *words, "--execute", code=1).err
            assert found == (
                f"ottla: group {group} is Stable with 1 member: its offsets can be changed only while it has none\n"
            )
        on("groups", "reset-offsets", other, group, "-t", topic, "--to-latest", "--execute", code=1)
        assert (
            "unknown" in on("groups", "describe", other, code=1).err
        )  # nothing is changed if one group cannot be changed
        assert f"group {group} has members: stop them first" in on("groups", "delete", group, code=1).err
        found = on("groups", "delete-offsets", group, "--topic", topic, code=1).err
        assert f"group {group} has members that are subscribed to {topic}" in found
        assert offsets(on, group)[topic, 0] == 2


# -- delete ------------------------------------------------------------------------------------------------------------


def test_delete(on, broker, topic, group):
    commit(broker, group, [(topic, 0, 1)])
    commit(broker, f"{group}.second", [(topic, 0, 1)])
    missing = on("groups", "delete", group, f"{group}.seconds", code=1)
    assert missing.out == f"{group} deleted\n"
    assert f"ottla: unknown group {group}.seconds (did you mean {group}.second" in missing.err
    assert f"{group}.second" in on("groups", "list").out
    assert f"unknown group {group}" in on("groups", "describe", group, code=1).err


def test_delete_offsets(on, broker, topic, group):
    commit(broker, group, [(topic, 0, 1), (topic, 1, 2), (topic, 2, 3)])
    assert (
        on("groups", "delete-offsets", group, "--topic", f"{topic}:0,2").out
        == f"{topic}-0 deleted\n{topic}-2 deleted\n"
    )
    assert offsets(on, group) == {(topic, 1): 2}
    found = on("groups", "delete-offsets", group, "--topic", f"{topic}:0", code=1).err
    assert f"group {group} has no committed offsets for {topic}:0" in found
    on("groups", "delete-offsets", group, "--topic", topic)
    assert "unknown group" in on("groups", "delete-offsets", group, "--topic", topic, code=1).err


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors(on, broker, topic, group, monkeypatch):
    commit(broker, group, [(topic, 0, 1)])
    reset = ("reset-offsets", group)
    scope = ("--topic", topic)
    for words, clue in [
        (("list", "--state", "dozing"), "--state 'dozing' must be one of Stable, Empty"),
        (("list", "--type", "share"), "--type 'share' must be one of classic, consumer"),
        (("describe", f"{group}1"), f"unknown group {group}1 (did you mean {group}"),
        ((*reset, *scope), "give one of --to-earliest, --to-latest"),
        ((*reset, *scope, "--to-latest", "--shift-by", 1), "give one of --to-earliest, --to-latest"),
        ((*reset, "--to-latest"), "give one of --topic and --all-topics"),
        ((*reset, *scope, "--all-topics", "--to-latest"), "give one of --topic and --all-topics"),
        ((*reset, *scope, "--all-groups", "--to-latest"), "give either groups or --all-groups"),
        (("reset-offsets", *scope, "--to-latest"), "give either groups or --all-groups"),
        ((*reset, *scope, "--by-duration", "1y"), "--by-duration '1y' is not a duration such as"),
        ((*reset, *scope, "--from-file", "x"), "give one of --topic and --all-topics"),
        ((*reset, *scope, "--to-latest", "--json", "--export"), "--export and --json"),
        ((*reset, *scope, "--to-timestamp", "noon"), "--to-timestamp 'noon' is neither"),
        ((*reset, "--topic", f"{topic}x", "--to-latest"), f"unknown topic {topic}x (did you mean {topic}"),
        ((*reset, "--topic", f"{topic}:3", "--to-latest"), f"topic {topic} has partitions 0 to 2, not 3"),
        ((*reset, "--topic", f"{topic}:", "--to-latest"), f"--topic '{topic}:' is neither a topic"),
        ((*reset, "--topic", f"{topic}:1", "--shift-by", 1), f"has no committed offset for {topic}-1"),
        ((*reset, "--from-file", "no/such.csv"), "no/such.csv: No such file"),
        (("delete", ""), "unknown group"),
        (("delete-offsets", group), "--topic"),
    ]:
        assert clue in on("groups", *words, code=1).err.splitlines()[-1]
    assert offsets(on, group) == {(topic, 0): 1}
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "127.0.0.1:1")
    for words in (("list",), ("describe", group), ("delete", group), (*reset, *scope, "--to-latest")):
        assert "no broker answers at 127.0.0.1:1" in on("groups", *words, code=1).err


# -- from ZooKeeper ----------------------------------------------------------------------------------------------------


@pytest.fixture
def zookeeper(ottla, monkeypatch):
    """A chroot in which offsets can be put: `put(group, topic, partition, text)`."""
    monkeypatch.setenv("OTTLA_ZOOKEEPER", f"{shared_zookeeper().connect}{new_chroot()}")

    def put(group, topic, partition, text):
        path = f"/consumers/{group}/offsets/{topic}/{partition}"
        ottla("zk", "create", "--write", "--parents", "--raw", "--", path, text)

    return put


def test_import_from_zookeeper(on, broker, topic, group, zookeeper):
    second = f"{group}.second"
    zookeeper(group, topic, 0, "3")
    zookeeper(group, topic, 2, "1")
    zookeeper(group, "gone", 0, "7")
    zookeeper(group, topic, 9, "7")
    zookeeper(second, topic, 1, "2")
    commit(broker, group, [(topic, 2, 4)])
    dry = on("groups", "import-zookeeper", "--json")
    plan = [
        {"group": group, "topic": topic, "partition": 0, "current_offset": None, "new_offset": 3},
        {"group": second, "topic": topic, "partition": 1, "current_offset": None, "new_offset": 2},
    ]
    assert dry.json == plan
    assert dry.err.splitlines() == [
        f"group {second} did not exist",
        f"{group}: gone-0 is not in the cluster, skipped",
        f"{group}: {topic}-2 already has the committed offset 4, not changed",
        f"{group}: {topic}-9 is not in the cluster, skipped",
        "nothing was changed: use --execute to make the changes",
    ]
    assert offsets(on, group) == {(topic, 2): 4}
    assert "unknown group" in on("groups", "describe", second, code=1).err
    assert on("groups", "import-zookeeper", "--json", "--execute").json == plan
    assert offsets(on, group) == {(topic, 0): 3, (topic, 2): 4}
    assert offsets(on, second) == {(topic, 1): 2}
    assert "there is nothing to do" in on("groups", "import-zookeeper", "--execute").err
    on("groups", "import-zookeeper", group, "--overwrite", "--execute")
    assert offsets(on, group) == {(topic, 0): 3, (topic, 2): 1}


def test_an_import_can_be_limited_to_a_group_and_exported(on, topic, group, zookeeper):
    zookeeper(group, topic, 0, "3")
    zookeeper(f"{group}.second", topic, 1, "2")
    assert on("groups", "import-zookeeper", group, "--export").out == f"{group},{topic},0,3\n"


def test_a_consumer_starts_at_its_imported_offset(on, broker, topic, group, zookeeper):
    for partition in range(3):
        zookeeper(group, topic, partition, str(partition + 1))
    on("groups", "import-zookeeper", "--execute")
    # Not a confluent_member: the poll that brings an assignment may bring a record too.
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "latest"})
    consumer.subscribe([topic])
    first = {}

    def has_all():
        message = consumer.poll(0.05)
        if message is not None:
            first.setdefault(message.partition(), message.offset())
        return len(first) == 3

    until_blocking(has_all, "a record of each partition")
    consumer.close()
    assert first == {0: 1, 1: 2, 2: 3}


def test_imports_that_are_refused(on, broker, topic, group, zookeeper, ottla):
    def refusal(*words):
        return on("groups", "import-zookeeper", *words, "--execute", code=1).err

    assert "the chroot does not exist" in refusal()
    zookeeper(group, topic, 0, "1")
    assert f"ZooKeeper has no group {group}x (did you mean {group}?)" in refusal(f"{group}x")
    for number, text, clue in [
        (1, "one", "the offset"),
        (2, "-5", "-5 is not an offset"),
        ("last", "1", "'last' is not a partition number"),
    ]:
        bad = f"{group}.{number}"
        zookeeper(bad, topic, number, text)
        found = refusal(bad)
        assert f"/consumers/{bad}/offsets/{topic}/{number}" in found
        assert clue in found
    assert refusal()  # nothing at all, where one is broken
    assert "unknown group" in on("groups", "describe", group, code=1).err
    with confluent_member(broker, group, topic):
        assert f"group {group} is Stable with 1 member" in refusal(group)
    ottla("zk", "create", "--write", "--parents", "--raw", f"/consumers/{group}/ids/{group}_host-1", "{}")
    assert f"group {group} still has consumers in ZooKeeper ({group}_host-1): stop them first" in refusal(group)
    assert offsets_or_none(on, group) == {}


def test_an_import_without_a_zookeeper(on, nowhere, monkeypatch):
    monkeypatch.setenv("OTTLA_ZOOKEEPER", nowhere)
    assert nowhere in on("groups", "import-zookeeper", "--execute", code=1).err


def offsets_or_none(on, group):
    """The committed offsets of a group; none if the group does not exist or was removed with its last member."""
    return {
        (row["topic"], row["partition"]): row["committed_offset"]
        for found in on("groups", "describe", "--json").json
        for row in found["partitions"]
        if found["group"] == group and row["committed_offset"] is not None
    }


# -- from ZooKeeper, as Kafka 0.7 left it ------------------------------------------------------------------------------


def old(on, *words, code=0):
    return on("groups", "import-zookeeper", "--layout", "0.7", *words, code=code)


def test_positions_in_bytes_are_not_taken_for_offsets(on, topic, group, zookeeper):
    zookeeper(group, topic, "29-1", "2")
    zookeeper(group, topic, "3-0", "1")
    zookeeper(f"{group}.other", topic, "29-0", "0")  # which counts when partitions are counted through
    shown = on("groups", "import-zookeeper", "--layout", "0.7", group, "--json", code=1)
    assert shown.json == [
        {"group": group, "topic": topic, "broker_partition": "3-0", "position": 1, "partition": 0},
        {"group": group, "topic": topic, "broker_partition": "29-1", "position": 2, "partition": 2},
    ]
    assert "positions in bytes" in shown.err
    assert old(on, group, "--execute", code=1).out == ""
    assert "unknown group" in on("groups", "describe", group, code=1).err


def test_positions_that_are_offsets_by_now(on, topic, group, zookeeper):
    for name, position in (("3-0", "1"), ("29-0", "99"), ("29-1", "2"), ("29-2", "0")):
        zookeeper(group, topic, name, position)
    done = old(on, "--positions-are-offsets", "--json", "--execute")
    assert offsets(on, group) == {(topic, 0): 1, (topic, 2): 2}
    assert f"{group}: {topic} 3-0 is {topic}-0, at byte 1 as offset" in done.err
    assert f"{topic}: it has 4 known partitions in 0.7 and 3 in the cluster" in done.err
    assert f"{topic}-1 has offsets from 0 to 4, not 99, skipped" in done.err
    assert f"{topic}-3 is not in the cluster, skipped" in done.err


def test_positions_by_a_table_and_partitions_by_name(on, topic, group, zookeeper, tmp_path):
    for name, position in (("29-0", "700"), ("29-1", "512"), ("29-2", "5"), ("29-3", "5")):
        zookeeper(group, topic, name, position)
    table = tmp_path / "positions.csv"
    table.write_text(
        f"{topic},29-0,0,0\n{topic},29-0,650,3\n{topic},29-0,800,4\n{topic},29-1,512,1\n{topic},29-2,10,1\n"
    )
    words = ["--positions", table]
    for legacy, partition in (("29-0", 2), ("29-1", 0), ("29-2", 1)):
        words += ["--map", f"{topic}:{legacy}={partition}"]
    done = old(on, *words)
    assert "nothing was changed" in done.err
    assert "unknown group" in on("groups", "describe", group, code=1).err
    done = old(on, *words, "--execute")
    assert offsets(on, group) == {(topic, 0): 1, (topic, 2): 3}
    assert "at byte 700 (the nearest known is 650: some records are read again) offset 3" in done.err
    assert f"{topic} 29-2 at byte 5 is before all known positions, skipped" in done.err
    assert f"{topic} 29-3 is not mapped, skipped" in done.err


def test_imports_from_0_7_that_are_refused(on, topic, group, zookeeper, tmp_path):
    zookeeper(group, topic, "29-0", "1")

    def refusal(*words):
        return old(on, *words, code=1).err

    assert "such as orders:29-0=2" in refusal("--map", "29-0=2")
    assert "named twice" in refusal("--map", f"{topic}:29-0=2", "--map", f"{topic}:29-1=2")
    table = tmp_path / "positions.csv"
    for text, said in (
        ("", "no positions"),
        ("a,29-0,1\n", "line 1"),
        ("a,29,1,1\n", "a hyphen"),
        ("a,1-1,x,1", "is not topic"),
    ):
        table.write_text(text)
        assert said in refusal("--positions", table)
    assert "give one of --positions" in refusal("--positions", table, "--positions-are-offsets")
    assert "need --layout 0.7" in on("groups", "import-zookeeper", "--positions-are-offsets", code=1).err
    assert "must be one of today, 0.7" in on("groups", "import-zookeeper", "--layout", "0.8", code=1).err
    zookeeper(group, topic, 0, "1")
    assert "is this Kafka 0.7's tree?" in refusal("--positions-are-offsets")
    assert "is not a partition number" in on("groups", "import-zookeeper", code=1).err


# -- to ZooKeeper, and back --------------------------------------------------------------------------------------------


@pytest.fixture
def znodes(ottla, zookeeper):
    """Write znodes of the layout of 0.7, and read their values below a path."""

    def put(path, text):
        ottla("zk", "--layout", "0.7", "create", "--write", "--parents", "--raw", "--", path, text)

    def values(path):
        found = {}
        for name in ottla("zk", "ls", path, "--json").json:
            found[name] = ottla("zk", "get", f"{path}/{name}", "--json").json["value"]
        return found

    put.values = values
    return put


def test_export_to_zookeeper(on, broker, topic, group, zookeeper, znodes, ottla):
    assignment = '{"version":1,"partitions":{"0":[1],"1":[1]}}'
    ottla("zk", "create", "--write", "--parents", "--", f"/brokers/topics/{topic}", assignment)
    zookeeper(group, topic, 0, "1")
    commit(broker, group, [(topic, 0, 3), (topic, 1, 2), (topic, 2, 4)])
    plan = [{"group": group, "topic": topic, "partition": 1, "current_offset": None, "new_offset": 2}]
    dry = on("groups", "export-zookeeper", group, "--json")
    assert dry.json == plan
    assert dry.err.splitlines() == [
        f"{group}: {topic}-0 already has 1 in ZooKeeper, not changed",
        f"{group}: {topic}-2 is not in ZooKeeper, skipped",
        "nothing was changed: use --execute to make the changes",
    ]
    top = f"/consumers/{group}/offsets/{topic}"
    assert znodes.values(top) == {"0": "1"}
    assert on("groups", "export-zookeeper", group, "--json", "--execute").json == plan
    assert znodes.values(top) == {"0": "1", "1": "2"}
    both = on("groups", "export-zookeeper", group, "--json", "--overwrite", "--execute").json
    assert [(row["partition"], row["current_offset"], row["new_offset"]) for row in both] == [(0, 1, 3), (1, 2, 2)]
    assert znodes.values(top) == {"0": "3", "1": "2"}


def test_export_to_the_layout_of_0_7_and_import_from_it(on, broker, topic, group, znodes):
    for broker_id, numbers in (("29", "0,2"), ("30", "1")):
        znodes(f"/brokers/topics/{topic}/{broker_id}", str(len(numbers.split(","))))
        znodes(f"/brokers/partitions/{topic}/{broker_id}", numbers)
    commit(broker, group, [(topic, 0, 3), (topic, 1, 2), (topic, 2, 1)])
    dry = on("groups", "export-zookeeper", group, "--layout", "0.7")
    assert f"{group}: {topic}-2 is broker partition 29-1 now" in dry.err
    assert "there is no znode" in on("zk", "ls", f"/consumers/{group}", code=1).err
    on("groups", "export-zookeeper", group, "--layout", "0.7", "--execute")
    assert znodes.values(f"/consumers/{group}/offsets/{topic}") == {"29-0": "3", "29-1": "1", "30-0": "2"}
    # What has been kept by us is today's offset of a known partition: nobody need say what it means.
    on("groups", "delete", group)
    on("zk", "set", "--write", f"/consumers/{group}/offsets/{topic}/30-0", "1")
    old(on, group, "--execute")
    assert offsets(on, group) == {(topic, 0): 3, (topic, 1): 1, (topic, 2): 1}
    # Whatever else stands there is a position in bytes.
    znodes(f"/consumers/{group}/offsets/{topic}/31-0", "1")
    assert "positions in bytes" in old(on, group, "--overwrite", "--execute", code=1).err


@pytest.fixture
def view(on, topic, znodes):
    """Publish the partitions of today that brokers lead, as text by broker id, in place of those of before."""
    published = set()

    def put(leads):
        for broker_id, numbers in leads.items():
            for path, text in (("topics", str(len(numbers.split(",")))), ("partitions", numbers)):
                if broker_id in published:
                    on("zk", "--layout", "0.7", "set", "--write", f"/brokers/{path}/{topic}/{broker_id}", text)
                else:
                    znodes(f"/brokers/{path}/{topic}/{broker_id}", text)
        for broker_id in published - leads.keys():
            for path in ("topics", "partitions"):
                on("zk", "delete", "--write", f"/brokers/{path}/{topic}/{broker_id}")
        published.clear()
        published.update(leads)

    return put


@pytest.fixture
def kept(on, broker, topic, group, view):
    """A group whose consumers have left offsets 3, 2 and 4 under 1-0, 2-0 and 2-1, as partitions 0, 1 and 2."""
    view({"1": "0", "2": "1,2"})
    commit(broker, group, [(topic, 0, 3), (topic, 1, 2), (topic, 2, 4)])
    on("groups", "export-zookeeper", group, "--layout", "0.7", "--execute")
    on("groups", "delete", group)


@pytest.mark.parametrize(
    ("leads", "name", "expected"),
    [
        ({"1": "0", "2": "1,2"}, "1-0", (1, 2, 4)),
        ({"1": "2", "2": "0,1"}, "1-0", (3, 2, 1)),
        ({"1": "2", "2": "0,1"}, "2-1", (3, 1, 4)),
        ({"2": "0,1,2"}, "2-2", (3, 2, 1)),  # a name without a node until then
    ],
)
def test_import_of_what_a_person_wrote_is_for_the_partition_with_the_name(
    on, topic, group, kept, view, znodes, zookeeper, leads, name, expected
):
    view(leads)
    if name in znodes.values(f"/consumers/{group}/offsets/{topic}"):
        on("zk", "set", "--write", f"/consumers/{group}/offsets/{topic}/{name}", "1")
    else:
        zookeeper(group, topic, name, "1")
    old(on, group, "--execute")
    assert offsets(on, group) == {(topic, number): offset for number, offset in enumerate(expected)}
    # What a consumer in ZooKeeper would start at is the same.
    plan = on("groups", "export-zookeeper", group, "--layout", "0.7", "--overwrite", "--json").json
    assert tuple(row["current_offset"] for row in plan) == expected


def test_import_of_what_a_person_wrote_when_no_leader_is_known(on, broker, topic, group, kept, view):
    view({"1": "1"})
    commit(broker, group, [(topic, 1, 2)])
    on("groups", "export-zookeeper", group, "--layout", "0.7", "--overwrite", "--execute")
    on("groups", "delete", group)
    view({})
    on("zk", "set", "--write", f"/consumers/{group}/offsets/{topic}/1-0", "1")  # partition 1 is the last that had it
    old(on, group, "--execute")
    assert offsets(on, group) == {(topic, 0): 3, (topic, 1): 1, (topic, 2): 4}


def test_import_does_not_guess_for_a_name_that_no_partition_has(on, topic, group, kept, view):
    view({"2": "0,1,2"})
    on("zk", "set", "--write", f"/consumers/{group}/offsets/{topic}/1-0", "1")
    assert "positions in bytes" in old(on, group, "--execute", code=1).err


def test_exports_that_are_refused(on, broker, topic, group, znodes):
    commit(broker, group, [(topic, 0, 3)])
    znodes(f"/consumers/{group}/ids/{group}_c1", f'{{"{topic}":1}}')
    assert f"has consumers in ZooKeeper ({group}_c1)" in on("groups", "export-zookeeper", group, code=1).err
    assert "must be one of today, 0.7" in on("groups", "export-zookeeper", group, "--layout", "0.8", code=1).err
    assert f"{group}.none: it has no committed offsets" in on("groups", "export-zookeeper", f"{group}.none").err

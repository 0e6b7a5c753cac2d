"""`ottla topics`."""

import sys

import pytest

from client.wire.metadata import PartitionMetadata
from ottla.commands.topics.selection import PartitionFilter
from support.deadlines import DEADLINE_S
from support.json_fields import not_printed, printed_fields
from support.terminal import CTRL_C, Terminal


def test_create_list_describe_delete(on):
    assert on("topics", "create", "made", "-p", 2, "-c", "retention.ms=9999").out == "made created: 2 partitions\n"
    listed = on("topics", "list", "--json").json
    assert {"topic": "made", "partitions": 2, "replication_factor": 1, "internal": False} in listed
    assert "made" in on("topics", "list").out
    on("produce", "made", "-p", 1, stdin=b"a\nb\n")
    printed = on("topics", "describe", "made", "--json")
    assert not_printed("topics describe", printed_fields(printed.out) | {"partitions[].offline[]"}) == []  # none is
    (described,) = printed.json
    assert described["configs"] == {"retention.ms": "9999"}
    assert len(described["topic_id"]) == 22
    first, second = described["partitions"]
    assert (first["leader"], first["replicas"], first["isr"], first["offline"]) == (0, [0], [0], [])
    assert (first["start_offset"], first["end_offset"], first["size_bytes"]) == (0, 0, 0)
    assert (second["start_offset"], second["end_offset"]) == (0, 2)
    assert second["size_bytes"] > 60
    shown = on("topics", "describe", "made").out
    for text in ("made", "2 partitions", "retention.ms=9999", "partition  leader", described["topic_id"]):
        assert text in shown
    assert on("topics", "delete", "made").out == "made deleted\n"
    assert "made" not in [topic["topic"] for topic in on("topics", "list", "--json").json]


def test_describe_without_names_shows_all_topics(on):
    on("topics", "create", "all-1", "all-2")
    names = [topic["topic"] for topic in on("topics", "describe", "--json").json]
    assert names == sorted(names)
    assert {"all-1", "all-2"} <= set(names)


def test_explicit_assignment(on):
    on("topics", "create", "assigned", "--replica-assignment", "0,0,0")
    assert len(on("topics", "describe", "assigned", "--json").json[0]["partitions"]) == 3
    result = on("topics", "create", "bad", "--replica-assignment", "0:7", code=1)
    assert "INVALID_REPLICA_ASSIGNMENT" in result.err
    result = on("topics", "create", "bad", "--replica-assignment", "a", code=1)
    assert "--replica-assignment 'a'" in result.err
    result = on("topics", "create", "bad", "-p", 1, "--replica-assignment", "0", code=1)
    assert "cannot be used with --partitions" in result.err


def test_alter(on):
    on("topics", "create", "altered", "-p", 1)
    assert on("topics", "alter", "altered", "-p", 3, "--config", "segment.ms=77").out == "altered altered\n"
    (topic,) = on("topics", "describe", "altered", "--json").json
    assert len(topic["partitions"]) == 3
    assert topic["configs"] == {"segment.ms": "77"}
    on("topics", "alter", "altered", "-p", 9, "--validate-only")
    on("topics", "alter", "altered", "--delete-config", "segment.ms")
    (topic,) = on("topics", "describe", "altered", "--json").json
    assert len(topic["partitions"]) == 3
    assert topic["configs"] == {}
    assert "nothing to alter" in on("topics", "alter", "altered", code=1).err
    assert "INVALID_PARTITIONS" in on("topics", "alter", "altered", "-p", 2, code=1).err
    assert "unknown topic" in on("topics", "alter", "nosuch", "-p", 2, code=1).err


def test_create_twice(on):
    on("topics", "create", "twice")
    assert "twice: TOPIC_ALREADY_EXISTS" in on("topics", "create", "twice", code=1).err
    assert on("topics", "create", "twice", "--if-not-exists").out == ""


def test_validate_only(on):
    assert "would be created" in on("topics", "create", "never", "--validate-only").out
    assert "unknown topic never" in on("topics", "describe", "never", code=1).err


def test_an_unknown_topic_is_reported_with_similar_names(on):
    on("topics", "create", "orders")
    for words in (("describe", "ordrs"), ("delete", "ordrs")):
        assert on("topics", *words, code=1).err == "ottla: unknown topic ordrs (did you mean orders?)\n"
    assert on("topics", "delete", "ordrs", "--if-exists").out == ""


def test_regular_expressions_select_topics(on):
    on("topics", "create", "rx.orders", "rx.invoices", "rx.orders-old")

    def names(*words):
        return [topic["topic"] for topic in on("topics", *words, "--json").json]

    assert names("list", "-r", r"rx\.orders.*") == ["rx.orders", "rx.orders-old"]
    assert names("list", "-r", "rx.orders", ".*invoices") == ["rx.invoices", "rx.orders"]
    assert names("list", "rx.invoices") == ["rx.invoices"]
    assert names("describe", "--regex", ".*-old") == ["rx.orders-old"]
    assert "no topic matches 'rx'" in on("topics", "list", "-r", "rx", code=1).err
    assert "--regex '(' is not a regular expression: missing )" in on("topics", "list", "-r", "(", code=1).err
    assert "--regex needs a regular expression" in on("topics", "list", "-r", code=1).err
    assert "did you mean rx.orders" in on("topics", "list", "rx.order", code=1).err
    assert (
        on("topics", "delete", "-r", r"rx\..*").out == "rx.invoices deleted\nrx.orders deleted\nrx.orders-old deleted\n"
    )
    assert "cannot be used together" in on("topics", "delete", "-r", "x", "--if-exists", code=1).err


def test_states_of_partitions_select_topics(on):
    """One broker has one replica in sync: a minimum of 1 is met exactly, a minimum of 2 is not met."""
    on("topics", "create", "isr-1", "-p", 2)
    on("topics", "create", "isr-2", "-p", 2, "-c", "min.insync.replicas=2")

    def names(*words):
        return [topic["topic"] for topic in on("topics", *words, "--json").json]

    at, under = names("list", "--at-min-isr"), names("list", "--under-min-isr")
    assert "isr-1" in at
    assert "isr-2" not in at
    assert under == ["isr-2"]
    assert names("describe", "--under-min-isr") == under
    assert names("describe", "--under-replicated", "--under-min-isr", "isr-1") == []
    assert names("list", "--under-replicated", "--unavailable") == []
    assert names("list", "--with-overrides", "isr-1", "isr-2") == ["isr-2"]
    assert names("describe", "--with-overrides", "-r", "isr-.") == ["isr-2"]
    [described] = on("topics", "describe", "isr-2", "--json").json
    assert described["min_insync_replicas"] == 2
    assert on("topics", "describe", "isr-1", "--offline").err == "no such partition\n"
    on("topics", "delete", "isr-1", "isr-2")


def test_states_of_a_partition_whose_replicas_move_or_that_has_no_leader():
    """A replica that a reassignment adds does not count as out of sync."""
    moving = PartitionMetadata(0, 1, 5, (1, 2, 3), (1, 2), (), 0)
    under_replicated = PartitionFilter(True, False, False, False)
    assert under_replicated.selects(moving, 0, None)
    assert not under_replicated.selects(moving, 1, None)
    without_leader = moving._replace(leader=-1)
    assert PartitionFilter(False, True, False, False).selects(without_leader, 0, None)
    assert PartitionFilter(False, False, False, True).selects(without_leader, 0, 1)
    assert not PartitionFilter(False, False, True, True).selects(moving, 0, 1)
    assert PartitionFilter(False, False, True, False).selects(moving, 0, 2)


def test_delete_asks_at_a_terminal(on):
    on("topics", "create", "asked")
    command = [sys.executable, "-m", "ottla", "topics", "delete", "asked"]
    for keys, said, code in (("n\n", "not confirmed", 1), (CTRL_C, "[y/N]", 130), ("yes\n", "asked deleted", 0)):
        with Terminal(command) as terminal:
            terminal.wait_for("Delete asked with all records? [y/N]")
            terminal.type(keys)
            terminal.wait_for(said)
            assert terminal.process.wait(DEADLINE_S) == code
    on("topics", "create", "asked")
    with Terminal([*command, "--yes"]) as terminal:
        terminal.wait_for("asked deleted")
    assert "[y/N]" not in terminal.shown


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("create", "x", "-c", "nonsense"), "--config 'nonsense' is not name=value"),
        (("create", "x", "-c", "no.such.setting=1"), "no.such.setting"),
        (("create", "x", "-c", "retention.ms=soon"), "retention.ms"),
        (("create", "x", "-p", "many"), "--partitions"),
        (
            (
                "create",
                "x y",
            ),
            "INVALID_TOPIC_EXCEPTION",
        ),
        (("create", "x", "-r", "3"), "INVALID_REPLICATION_FACTOR"),
        (("create",), "TOPIC"),
        (("rename", "x"), "rename"),
    ],
)
def test_bad_values(on, words, clue):
    assert clue in on("topics", *words, code=1).err

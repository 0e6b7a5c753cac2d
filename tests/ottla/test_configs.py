"""`ottla configs`."""

import re
import sys

from support.deadlines import DEADLINE_S
from support.terminal import Terminal


def test_topic(on):
    on("topics", "create", "configured")
    target = ("--topic", "configured")
    assert on("configs", "describe", *target, "--json").json == []
    assert (
        on("configs", "alter", *target, "-s", "retention.ms=5", "--append", "cleanup.policy=compact").out == "altered\n"
    )
    found = {entry["name"]: entry for entry in on("configs", "describe", *target, "--json").json}
    assert found["cleanup.policy"]["value"] == "delete,compact"
    assert found["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert "retention.ms" in on("configs", "describe", *target).out
    on("configs", "alter", *target, "--subtract", "cleanup.policy=compact", "-d", "retention.ms")
    found = {entry["name"]: entry for entry in on("configs", "describe", *target, "--json", "--all").json}
    assert found["cleanup.policy"]["value"] == "delete"
    assert found["retention.ms"]["source"] == "DEFAULT_CONFIG"
    assert len(found) > 20
    only = on("configs", "describe", *target, "segment.ms", "--json").json
    assert [entry["name"] for entry in only] == ["segment.ms"]
    on("configs", "alter", *target, "-s", "retention.ms=6", "--validate-only")
    assert "retention.ms" not in on("configs", "describe", *target).out


def test_broker(on, broker):
    (entry,) = on("configs", "describe", "--broker", 0, "log.dirs", "--json").json
    assert (entry["value"], entry["source"], entry["read_only"]) == (str(broker.log_dir), "STATIC_BROKER_CONFIG", True)
    on("configs", "alter", "--broker-default", "-s", "log.retention.ms=777777")
    (entry,) = on("configs", "describe", "--broker-default", "log.retention.ms", "--json").json
    assert (entry["value"], entry["source"]) == ("777777", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    on("configs", "alter", "--broker-default", "-d", "log.retention.ms")


def test_synonyms(on):
    on("topics", "create", "synonymous")
    on("configs", "alter", "--topic", "synonymous", "-s", "segment.bytes=1234567")
    words = ("configs", "describe", "--topic", "synonymous", "max.message.bytes", "segment.bytes")
    assert [line.split() for line in on(*words, "--synonyms").out.splitlines()[1:]] == [
        ["max.message.bytes", "1048588", "default"],
        ["message.max.bytes", "1048588", "default"],
        ["segment.bytes", "1234567", "dynamic", "topic"],
        ["log.segment.bytes", "1073741824", "default"],
    ]
    assert "log.segment.bytes" not in on(*words).out


def test_settings_fit_the_terminal(on, monkeypatch):
    """The values are folded; the names stay in one piece."""
    on("topics", "create", "wide")
    on("configs", "alter", "--topic", "wide", "-s", f"leader.replication.throttled.replicas={','.join(['0:0'] * 60)}")

    def shown(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        with Terminal([sys.executable, "-m", "ottla", "configs", "describe", "--topic", "wide"]) as terminal:
            terminal.wait_for("dynamic topic")
            assert terminal.process.wait(DEADLINE_S) == 0
            terminal.wait_for("0:0 ")
            lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown).splitlines()
        assert max(map(len, lines)) <= columns
        assert len(lines) > 5
        return [line.split("  ")[0] for line in lines]

    assert shown(80)[1:3] == ["leader.replication.throttled.replicas", ""]
    assert shown(60)[1:3] == ["leader.replication.", ""]


def test_errors(on):
    on("topics", "create", "faulty")
    for words, clue in [
        (("describe",), "one of --topic, --broker"),
        (("describe", "--topic", "a", "--broker", 0), "one of --topic, --broker"),
        (("describe", "--topic", "falty"), "did you mean faulty?"),
        (("describe", "--topic", "faulty", "no.such"), "no.such"),
        (("describe", "--broker", 7), "no such broker"),
        (("alter", "--topic", "faulty"), "nothing to alter"),
        (("alter", "--topic", "faulty", "-s", "retention.ms"), "--set 'retention.ms' is not name=value"),
        (("alter", "--topic", "faulty", "-s", "retention.ms=x"), "INVALID_CONFIG"),
        (("alter", "--broker", 0, "-s", "log.dirs=/tmp"), "log.dirs"),
    ]:
        assert clue in on("configs", *words, code=1).err


def test_levels_of_loggers(on):
    resource = ("--broker-logger", "0")
    (before,) = on("configs", "describe", *resource, "broker.settings.store", "--json").json
    assert (before["value"], before["source"]) == ("INFO", "DYNAMIC_BROKER_LOGGER_CONFIG")
    on("configs", "alter", *resource, "--set", "broker.settings=WARN")
    shown = on("configs", "describe", *resource, "--json").json
    levels = {one["name"]: one["value"] for one in shown}
    assert (levels["broker.settings.store"], levels["root"]) == ("WARN", "INFO")
    on("configs", "alter", *resource, "--delete", "broker.settings")
    assert "unknown logger kafka" in on("configs", "describe", *resource, "kafka", code=1).err
    refused = on("configs", "alter", *resource, "--set", "kafka.server.KafkaApis=DEBUG", code=1)
    assert "named after its Python modules" in refused.err

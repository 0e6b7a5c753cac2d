"""The log lines of `ottla broker`, as text and as JSON."""

from __future__ import annotations

import json
import logging
import socket
import sys
from datetime import UTC, datetime, timedelta

import pytest

from broker.log_lines import JsonLines, TextLines
from ottla.cluster.broker_child import BrokerChild
from ottla.cluster.process_output import ProcessOutput
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from support.broker import BrokerProcess, settings
from support.deadlines import DEADLINE_S
from support.polling import until
from support.wire import wire_client


def test_the_reason_why_it_does_not_start_is_a_json_object(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = BrokerProcess(tmp_path / "data", {"ottla.log.format": "json"}, port=port).launch()
        assert broker.process.wait(DEADLINE_S) == 1
    *_, last = (json.loads(line) for line in broker.log_text().splitlines())
    assert (last["level"], last["logger"]) == ("CRITICAL", "broker")
    assert "in use" in last["message"]
    assert "exception" not in last


def test_json_has_the_traceback_in_one_line():
    try:
        raise ValueError("no é")
    except ValueError:
        error = sys.exc_info()
    record = logging.LogRecord("a.b", logging.ERROR, __file__, 1, "%s\nbroke", ("it",), error)
    line = JsonLines().format(record)
    assert "\n" not in line
    assert line.isascii()
    fields = json.loads(line)
    assert list(fields) == ["timestamp", "level", "logger", "message", "exception"]
    assert (fields["level"], fields["logger"], fields["message"]) == ("ERROR", "a.b", "it\nbroke")
    assert fields["exception"].startswith("Traceback (most recent call last):\n")
    assert fields["exception"].endswith("ValueError: no é")
    assert datetime.now(UTC) - datetime.fromisoformat(fields["timestamp"]) < timedelta(seconds=60)


def test_text_has_one_line_for_a_message_and_then_the_traceback():
    try:
        raise ValueError("no é")
    except ValueError:
        error = sys.exc_info()
    chosen = "g\n2026-11-23 08:00:00,123 INFO broker: all is well\r\x1b[2K\u2028é"
    record = logging.LogRecord("a.b", logging.ERROR, __file__, 1, "group %s", (chosen,), error)
    first, *rest = TextLines().format(record).splitlines()
    escaped = r"g\n2026-11-23 08:00:00,123 INFO broker: all is well\r\x1b[2K\u2028é"
    assert first.endswith(f" ERROR a.b: group {escaped}")
    assert (rest[0], rest[-1]) == ("Traceback (most recent call last):", "ValueError: no é")


async def test_a_group_id_cannot_forge_lines(tmp_path):
    with BrokerProcess(tmp_path / "data") as broker:
        async with wire_client(broker.bootstrap) as client:
            await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
            joining = JoinGroupRequest(
                group_id="g\nFORGED", session_timeout_ms=30_000, protocol_type="consumer", protocols=protocols
            )

            async def joined():
                return (await client.call(joining, 0)).error_code == 0

            await until(joined, "the group has a member")
        assert "group g\\nFORGED" in broker.log_text()
        assert not any(line.startswith("FORGED") for line in broker.log_text().splitlines())


@pytest.mark.parametrize(("level", "is_shown"), [(logging.INFO, False), (logging.WARNING, True)])
def test_a_quiet_cluster_leaves_out_the_info_lines_of_either_form(capsys, level, is_shown):
    record = logging.LogRecord("a", level, __file__, 1, "words", (), None)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for formatter in (JsonLines(), text):
        ProcessOutput(["broker-1"], quiet=True).said("broker-1", formatter.format(record))
        assert ("words" in capsys.readouterr().err) is is_shown


async def test_a_child_of_a_cluster_may_log_json(tmp_path):
    properties = tmp_path / "server.properties"
    own = settings(tmp_path / "data") | {"ottla.log.format": "json", "broker.id": "0"}
    properties.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
    lines = []
    child = BrokerChild("broker-0", [str(properties)], lines.append)
    await child.start()
    assert await child.wait_ready(), lines
    assert await child.stop(DEADLINE_S)
    assert child.facts.keys() == {"listening", "data"}
    assert child.facts["data"] == str(tmp_path / "data")
    assert json.loads(lines[-1])["message"] == "stopped cleanly"

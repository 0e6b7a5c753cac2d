"""`ottla groups watch`."""

import itertools
import json
import re
import subprocess
import sys

import pytest

from support.deadlines import DEADLINE_S
from support.terminal import CTRL_C, Terminal

numbers = itertools.count(1)


def command(*words):
    return [sys.executable, "-m", "ottla", "groups", "watch", "--interval", "20ms", *words]


@pytest.fixture
def group(on):
    """A group without members, with a lag of 3 in a topic of its own name."""
    name = f"watched{next(numbers)}"
    on("topics", "create", name, "-p", 1)
    on("produce", name, stdin=b"1\n2\n3\n")
    on("groups", "reset-offsets", name, "--topic", name, "--to-earliest", "--execute")
    yield name
    on("groups", "delete", name)
    on("topics", "delete", name)


def test_lines_where_no_terminal_is(on, group):
    lines = on("groups", "watch", group, "--interval", "1ms", "--count", 3).out.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(
        rf"[-\dT:.]+\+00:00 {group} state=Empty members=0 total_lag=3 committed_per_second=- produced_per_second=-",
        lines[0],
    )
    assert lines[2].endswith("committed_per_second=0.0 produced_per_second=0.0")


def test_rates_in_json(on, group):
    process = subprocess.Popen([*command(group), "--json"], stdout=subprocess.PIPE)
    with process:
        try:
            first = json.loads(process.stdout.readline())
            on("produce", group, stdin=b"4\n5\n")
            on("groups", "reset-offsets", group, "--topic", group, "--to-offset", 4, "--execute")
            reports = [first]
            while reports[-1]["partitions"][0]["committed_offset"] != 4:
                reports.append(json.loads(process.stdout.readline()))
        finally:
            process.terminate()
    assert process.wait(DEADLINE_S) == 143
    assert first["committed_per_second"] is None
    assert (first["total_lag"], reports[-1]["total_lag"]) == (3, 1)
    assert first["time_ms"] < reports[-1]["time_ms"]
    for name, moved in (("committed_per_second", 4), ("produced_per_second", 2)):
        pairs = itertools.pairwise(reports)
        rates = [(now[name], (now["time_ms"] - before["time_ms"]) / 1000) for before, now in pairs]
        assert sum(rate * passed_s for rate, passed_s in rates) == pytest.approx(moved, rel=0.5)
        assert reports[-1]["partitions"][0][name] == reports[-1][name]


def test_redraws_at_a_terminal_until_ctrl_c(on, group):
    with Terminal(command(group)) as terminal:
        terminal.wait_for("total lag 3")
        assert "every 20ms; Ctrl-C ends" in terminal.shown
        on("produce", group, stdin=b"4\n")
        terminal.wait_for("total lag 4")
        on("groups", "delete", group)
        terminal.wait_for("there is no group")
        on("groups", "reset-offsets", group, "--topic", group, "--to-latest", "--execute")
        terminal.wait_for("total lag 0")
        terminal.type(CTRL_C)
        assert terminal.process.wait(DEADLINE_S) == 130
        frames = terminal.shown.split("\x1b[H")
    assert len(frames) > 2
    assert all(frame.rstrip().endswith("\x1b[J") for frame in frames[1:-1])
    assert "Traceback" not in terminal.shown


def test_a_report_is_cut_to_the_height_of_the_terminal(on, group, monkeypatch):
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "40")
    with Terminal(command(group, "--count", "1")) as terminal:
        terminal.wait_for("more lines")
        assert terminal.process.wait(DEADLINE_S) == 0
    lines = terminal.shown.split("\x1b[H")[1].splitlines()
    assert len(lines) == 5
    assert max(len(line.replace("\x1b[K", "")) for line in lines) <= 40


def test_a_named_group_must_exist_at_the_start(on, group):
    assert f"unknown group {group}1 (did you mean {group}?)" in on("groups", "watch", f"{group}1", code=1).err
    assert "--interval 'soon' is not a duration" in on("groups", "watch", "--interval", "soon", code=1).err
    assert group in on("groups", "watch", "--count", 1).out

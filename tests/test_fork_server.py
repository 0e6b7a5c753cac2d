"""Processes from the fork server are processes: exit codes, signals, output, environment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.fork_server import ForkedProcess
from support.polling import until_blocking


def speak(code: int) -> int:
    print("out", os.environ["OTTLA_SPOKEN"], Path.cwd())
    print("err", file=sys.stderr)
    return code


def fail() -> None:
    raise ZeroDivisionError


def stand_still() -> None:
    print("begun")
    time.sleep(10 * DEADLINE_S)  # until it is killed


def test_a_process_writes_to_its_files_and_returns_its_exit_code(tmp_path, monkeypatch):
    out, errors = tmp_path / "out", tmp_path / "errors"
    monkeypatch.setenv("OTTLA_SPOKEN", "word")
    assert ForkedProcess(speak, 3, out=out, errors=errors).wait(DEADLINE_S) == 3
    assert (out.read_text(), errors.read_text()) == (f"out word {ROOT}\n", "err\n")
    both = tmp_path / "both"
    assert ForkedProcess(speak, 0, out=both).wait(DEADLINE_S) == 0
    assert sorted(both.read_text().splitlines()) == ["err", f"out word {ROOT}"]


def test_an_exception_ends_a_process_with_a_traceback(tmp_path):
    assert ForkedProcess(fail, out=tmp_path / "out").wait(DEADLINE_S) == 1
    assert "ZeroDivisionError" in (tmp_path / "out").read_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_is_ended_by_a_signal(tmp_path, number):
    process = ForkedProcess(stand_still, out=tmp_path / "out")
    until_blocking(lambda: (tmp_path / "out").read_text() == "begun\n", "it runs")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == -number
    process.send_signal(number)  # in vain
    assert process.poll() == -number

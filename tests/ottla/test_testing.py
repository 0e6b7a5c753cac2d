"""`ottla testing run`: a command with brokers of its own, its signals and its exit code."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.testing import child_command
from ottla.testing.child_command import Signals
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

ROOT = Path(__file__).resolve().parents[2]
PRODUCE = """
import os
from confluent_kafka import Producer
servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
assert servers == os.environ["OTTLA_BOOTSTRAP_SERVER"]
producer = Producer({"bootstrap.servers": servers})
producer.produce("orders", b"one")
assert producer.flush(60) == 0
print(servers)
"""


@pytest.fixture
def run():
    """Run a command line in this process; return its exit code."""

    def run_line(*words):
        before = {number: signal.getsignal(number) for number in child_command.PASSED_ON}
        code = main(["testing", "run", *map(str, words)])
        assert {number: signal.getsignal(number) for number in child_command.PASSED_ON} == before
        assert not {"ottla-broker", "ottla-cluster"} & {one.name for one in threading.enumerate()}
        return code

    return run_line


def test_a_command_finds_the_brokers_and_they_are_gone_afterwards(run, capfd):
    assert run("--brokers", 3, "--", sys.executable, "-c", PRODUCE) == 0
    out, err = capfd.readouterr()
    servers = out.strip()
    assert re.fullmatch(r"(127\.0\.0\.1:\d+,?){3}", servers)
    assert err == f"ottla: 3 brokers on {servers}; running {sys.executable}\n"
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", int(servers.rpartition(":")[2]))) != 0


def test_settings_data_and_log(run, capfd, tmp_path):
    script = "import os; print(os.listdir())"
    assert run("--set", "num.partitions=2", "-d", tmp_path / "kept", sys.executable, "-c", PRODUCE) == 0
    assert (tmp_path / "kept" / "orders-1").is_dir()
    assert run("--set", "num.partitions=x", "--", sys.executable, "-c", script) == 1
    assert "num.partitions=x" in capfd.readouterr().err
    assert run("--log-level", "loud", "true") == 1
    assert "--log-level loud: is no level of a log" in capfd.readouterr().err
    assert run("--brokers", 2, "--set", "log.dirs=x", "true") == 1
    assert "log.dirs cannot be set here" in capfd.readouterr().err


def test_the_command_injects_faults(run, capfd):
    script = (
        "import os, subprocess, sys; ottla = [sys.executable, '-m', 'ottla'];"
        "subprocess.run([*ottla, 'faults', 'kill', '--broker', '2'], check=True);"
        "subprocess.run([*ottla, 'faults', 'list'], check=True)"
    )
    assert run("--brokers", 2, "--", sys.executable, "-c", script) == 0
    assert "kill" in capfd.readouterr().out


def test_the_versions_of_another_release(run, capfd):
    command = (sys.executable, "-m", "ottla", "api-versions")
    assert run("--version", "2.8", "--", *command) == 0
    (produce,) = [line for line in capfd.readouterr().out.splitlines() if line.split()[1:2] == ["Produce"]]
    assert "9" in produce.split()
    assert run("--version", "1.7", "true") == 1
    assert "1.7" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("no-such-command-here",), 127),
        (("/",), 126),
    ],
    ids=["code", "signal", "missing", "not executable"],
)
def test_the_exit_code_is_that_of_the_command(run, capfd, command, code):
    assert run("--", *command) == code
    err = capfd.readouterr().err.splitlines()
    assert err[0].endswith(f"running {command[0]}")
    assert err[1:] == {
        127: ["ottla: no-such-command-here: No such file or directory"],
        126: ["ottla: /: Permission denied"],
    }.get(code, [])


def launched(tmp_path, *command):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    line = [sys.executable, "-m", "ottla", "testing", "run", "--", *command]
    return subprocess.Popen(line, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1], ids=lambda one: one.name)
def test_signals_are_passed_on_and_the_data_is_removed(tmp_path, number):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    script = (
        "import signal, sys, pathlib\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"
        f"pathlib.Path({str(tmp_path)!r}, 'ready').touch()\n"
        f"signal.sigwait([{int(number)}])\n"  # a handler and pause() would lose one that comes in between
        "sys.exit(9)"
    )
    process = launched(scratch, sys.executable, "-c", script)
    until_blocking((tmp_path / "ready").exists, "the command runs")
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 9, err
    assert list(scratch.iterdir()) == []


def test_a_signal_before_the_command_starts_ends_the_run():
    with pytest.raises(SystemExit) as ended, Signals():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143


def test_the_wait_for_the_command_wakes_up_for_signals():
    """The kernel may give a signal to another thread; the main thread, which passes it on, then waits on."""
    limits = []

    class Command:
        def wait(self, timeout=None):
            limits.append(timeout)
            if len(limits) < 3:
                raise subprocess.TimeoutExpired("command", timeout)
            return 7

    assert Signals._wait(Command()) == 7
    assert None not in limits


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_is_being_started_is_passed_on(number, monkeypatch):
    """It may have come before the process existed, also from a terminal."""
    monkeypatch.setattr(child_command, "_is_in_the_foreground", lambda: True)

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with Signals() as signals:
        assert signals.run(["sleep", "600"], {}) == 128 + number


def test_ctrl_c_of_a_terminal_is_not_passed_on_a_second_time(monkeypatch, tmp_path):
    """The terminal sends it to the command, too."""
    monkeypatch.setattr(child_command, "_is_in_the_foreground", lambda: True)
    wait = Signals._wait

    def wait_for(process):
        (tmp_path / "started").touch()
        return wait(process)

    monkeypatch.setattr(Signals, "_wait", staticmethod(wait_for))
    script = "import os, signal, time\nwhile not os.path.exists('started'): time.sleep(0.01)\n"
    script += "os.kill(os.getppid(), signal.SIGINT); os.kill(os.getppid(), signal.SIGTERM); time.sleep(600)"
    monkeypatch.chdir(tmp_path)
    with Signals() as signals:
        assert signals.run([sys.executable, "-c", script], {}) == 143

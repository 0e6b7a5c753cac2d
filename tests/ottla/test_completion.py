"""Completion: Typer's protocol in this process, and a real bash in a pseudo terminal."""

import contextlib
import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.command_line import quick_question
from ottla.command_line.clients import CHOSEN_PROFILE
from ottla.command_line.profiles import NO_PROFILE
from ottla.command_line.quick_question import _AbandonedThreads
from support.broker import broker_process
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

LOGGERS = ["broker.controller.controller"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def completed(ottla, monkeypatch):
    """Returns what bash, which splits words at ":" and "=", gets for these words; the last one is incomplete."""

    def run(*words, code=0):
        monkeypatch.setenv("_OTTLA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["ottla", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        result = ottla(code=code)
        monkeypatch.delenv("_OTTLA_COMPLETE")
        assert result.err == ""
        return result.out.splitlines()

    return run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A broker with two topics and a group."""
    topics = ("topics", "create", "completed-a", "completed-b", "--partitions", "2")
    offsets = ("groups", "reset-offsets", "completing group", "--topic", "completed-a", "--to-earliest", "--execute")
    with broker_process(tmp_path_factory.mktemp("broker") / "data") as broker:
        for words in (topics, offsets):
            assert main(["-b", broker.bootstrap, *words]) == 0
        yield broker


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("topics", "describe", "completed-"), ["completed-a", "completed-b"]),
        (("topic", "delete", "completed-a", "completed-b"), ["completed-b"]),
        (("topics", "alter", "completed-b"), ["completed-b"]),
        (("topics", "trim", "completed-b"), ["completed-b"]),
        (("topics", "describe", "__consumer"), ["__consumer_offsets"]),
        (("produce", "completed-b"), ["completed-b"]),
        (("consume", "completed-b"), ["completed-b"]),
        (("perf", "consume", "completed-b"), ["completed-b"]),
        (("reassign", "plan", "completed-b"), ["completed-b"]),
        (("elect-leaders", "--topic", "completed-b"), ["completed-b"]),
        (("configs", "describe", "--topic", "=", "completed-b"), ["completed-b"]),
        (("groups", "reset-offsets", "g", "--topic", "completed-b"), ["completed-b"]),
        (("groups", "describe", "compl"), ["completing\\ group"]),
        (("groups", "delete", "compl"), ["completing\\ group"]),
        (("consume", "completed-a", "--group", "'compl"), ["completing group"]),
        (("transactions", "describe-producers", "completed-b"), ["completed-b-0", "completed-b-1"]),
        (("transactions", "describe-producers", "completed-b-0", "--broker-id", ""), ["0"]),
        (("configs", "describe", "--broker", ""), ["0"]),
        (("configs", "describe", "--broker-logger", "0", "broker.controller.contr"), LOGGERS),
        (("configs", "alter", "--broker-logger", "0", "--delete", "broker.controller.contr"), LOGGERS),
        (("configs", "alter", "--broker-logger", "0", "--set", "broker.controller", "=", "DE"), ["DEBUG"]),
        (("api-versions", "--broker", ""), ["0"]),
        (("log-dirs", "--broker", ""), ["0"]),
        (("brokers", "describe", ""), ["0"]),
    ],
    ids=str,
)
def test_names_of_the_cluster(cluster, completed, words, found):
    host, port = cluster.bootstrap.split(":")
    assert completed("-b", host, ":", port, *words) == found
    names = 1 if words[0] in ("produce", "consume", "elect-leaders", "api-versions", "log-dirs") else 2
    assert completed(*words[:names], "-b", host, ":", port, *words[names:]) == found


def test_the_cluster_of_the_profile(cluster, ottla, completed):
    ottla("profile", "create", "one", "-b", cluster.bootstrap)
    ottla("profile", "create", "two", "-b", "127.0.0.1:1")
    assert completed("topics", "describe", "completed-b") == ["completed-b"]
    assert CHOSEN_PROFILE.get() is NO_PROFILE  # it is forgotten
    assert completed("--profile", "two", "topics", "describe", "completed-b") == []
    assert completed("topics", "describe", "--profile", "one", "completed-b") == ["completed-b"]
    assert completed("topics", "describe", "--profile", "nosuch", "completed-b") == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("top",), ["topics"]),
        (("topics", "create", "--parti"), ["--partitions"]),
        (("help", "topics", "cr"), ["create"]),
        (("help", "cons"), ["consume", "console"]),
        (("topics", "create", "x", "--config", "cleanup"), ["cleanup.policy="]),
        (("topics", "create", "x", "--config", "cleanup.policy", "=", "c"), ["compact"]),
        (("topics", "create", "x", "--config", "=", "cleanup.policy", "=", "c"), ["compact"]),
        (("topics", "alter", "x", "--delete-config", "retention.m"), ["retention.ms"]),
        (("configs", "alter", "--topic", "x", "--set", "retention.m"), ["retention.ms="]),
        (("configs", "alter", "--broker", "0", "--set", "log.retention.m"), ["log.retention.ms="]),
        (("configs", "alter", "--broker", "0", "--delete", "num.io"), ["num.io.threads"]),
        (("configs", "alter", "--broker", "0", "--delete", "broker.i"), []),  # cannot be changed
        (("configs", "describe", "--broker", "0", "broker.rac"), ["broker.rack"]),
        (("broker", "--set", "log.cleaner.en"), ["log.cleaner.enable="]),
        (("cluster", "--set", "log.cleaner.enable", "=", "f"), ["false"]),
        (("profile", "create", "x", "--set", "check"), ["check.crcs="]),
        (("profile", "create", "x", "--set", "check.crcs", "=", "t"), ["true"]),
        (("-b", "x", "zk", "ls", ""), []),
        (("consume", "x", "--key-separator", ":", "--gro"), ["--group"]),
    ],
    ids=str,
)
def test_names_that_need_no_cluster(completed, words, found):
    assert completed(*words) == found


def test_servers_and_profiles(ottla, completed, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "broker-9:9092")
    ottla("profile", "create", "one", "-b", "broker-1:19092,broker-2:19092")
    ottla("profile", "create", "other", "--set", "acks=1")
    for words in (("-b",), ("topics", "-b"), ("topics", "list", "-b"), ("profile", "create", "x", "-b")):
        assert completed(*words, "") == ["broker-9:9092", "broker-1:19092,broker-2:19092", "127.0.0.1:9092"]
        assert completed(*words, "127.0.0.1", ":") == ["9092"]
        assert completed(*words, "127.0.0.1", ":", "90") == ["9092"]
    for words in (("--profile",), ("topics", "list", "--profile"), ("profile", "use"), ("profile", "show")):
        assert completed(*words, "o") == ["one", "other"]


def test_a_wrong_file_of_profiles_completes_nothing(completed, tmp_path, monkeypatch):
    file = tmp_path / "profiles.toml"
    file.write_text("[")
    monkeypatch.setenv("OTTLA_CONFIG", str(file))
    assert completed("profile", "use", "") == []
    assert completed("topics", "list", "-b", "") == ["127.0.0.1:9092"]


@pytest.mark.parametrize("profiles", ["[", ""], ids=["wrong file", "no such profile"])
def test_a_profile_that_cannot_be_used_completes_nothing_of_another_cluster(
    cluster, completed, tmp_path, monkeypatch, profiles
):
    file = tmp_path / "profiles.toml"
    file.write_text(profiles)
    monkeypatch.setenv("OTTLA_CONFIG", str(file))
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", cluster.bootstrap)  # else the default could be a broker, too
    assert completed("topics", "describe", "--profile", "one", "completed-b") == []
    assert completed("--profile", "one", "topics", "describe", "completed-b") == []


def test_a_server_that_does_not_answer_is_given_up(completed, monkeypatch):
    monkeypatch.setattr(quick_question, "DEADLINE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert completed("topics", "describe", "-b", "127.0.0.1", ":", port, "x") == []


def test_a_name_server_that_does_not_answer_is_not_waited_for(completed, monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer.wait(DEADLINE_S) and [])
    monkeypatch.setattr(quick_question, "DEADLINE_S", 0.05)
    assert completed("topics", "describe", "-b", "nosuch.example", ":", "9092", "x") == []
    assert not answer.is_set()
    answer.set()


def test_calls_in_threads_return_results_and_errors():
    threads = _AbandonedThreads()
    assert threads.submit(int, "5").result(DEADLINE_S) == 5
    assert isinstance(threads.submit(int, "x").exception(DEADLINE_S), ValueError)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_protocols_of_other_shells(cluster, ottla, monkeypatch, shell):
    monkeypatch.setenv("_OTTLA_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"ottla topics describe -b {cluster.bootstrap} completed-b")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert "completed-b" in ottla().out
    if shell == "fish":
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
        ottla(code=0)


@pytest.mark.parametrize(
    ("shell", "registration"),
    [
        ("bash", "complete -o default -F _ottla_completion ottla"),
        ("zsh", "compdef _ottla_completion ottla"),
        ("fish", "complete --command ottla"),
    ],
)
def test_the_scripts_of_the_shells(ottla, monkeypatch, shell, registration):
    script = ottla("completion", shell).out
    assert registration in script
    assert f"_OTTLA_COMPLETE=complete_{shell}" in script
    monkeypatch.setenv("SHELL", f"/usr/local/bin/{shell}")
    assert ottla("completion").out == script


@pytest.mark.parametrize("shell", ["/bin/dash", ""])
def test_a_shell_without_a_script(ottla, monkeypatch, shell):
    monkeypatch.setenv("SHELL", shell)
    assert f"SHELL={shell} is none of bash, zsh, fish" in ottla("completion", code=1).err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_bash(cluster, tmp_path):
    shim = tmp_path / "bin" / "ottla"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m ottla "$@"\n')
    shim.chmod(0o755)
    environment = os.environ | {"PATH": f"{shim.parent}:{os.environ['PATH']}", "PS1": "$ ", "TERM": "dumb"}
    controller, terminal = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        start_new_session=True,
    )
    os.close(terminal)
    os.set_blocking(controller, False)
    shown = bytearray()

    def shows(text):
        with contextlib.suppress(BlockingIOError):
            shown.extend(os.read(controller, 65536))
        return text.encode() in shown

    try:
        os.write(controller, b'eval "$(ottla completion bash)"; echo re""ady\n')
        until_blocking(lambda: shows("ready"), "bash has the completion")
        os.write(controller, f"ottla topics describe -b {cluster.bootstrap} completed-\t\t".encode())
        until_blocking(lambda: shows("completed-a  completed-b"), "topics")
        os.write(controller, b"\x15ottla -b 127.0.0.1:\t")
        until_blocking(lambda: shows("127.0.0.1:9092 "), "a server")
    finally:
        bash.kill()
        bash.wait()
        os.close(controller)

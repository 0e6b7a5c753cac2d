"""Messages to systemd, received on a real datagram socket; and SIGHUP."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from broker.service_manager import ServiceManager
from support.broker import ROOT, BrokerProcess, settings
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.terminal import Terminal

CLEAN = ".kafka_cleanshutdown"


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A socket as systemd's, and its address as NOTIFY_SOCKET has it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@ottla-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name.replace("@", "\0", 1) if request.param == "abstract" else name)
        receiver.settimeout(DEADLINE_S)
        yield receiver, name


def received(receiver):
    return dict(line.split("=", 1) for line in receiver.recv(65536).decode().split("\n"))


def test_a_broker_reports_its_start_and_its_stop(tmp_path, manager, monkeypatch):
    receiver, name = manager
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with BrokerProcess(tmp_path / "data").launch() as broker:
        assert received(receiver) == {"STATUS": "loading the logs"}
        ready = received(receiver)
        broker.wait_ready()
        assert ready == {"READY": "1", "STATUS": f"broker 0 serves {broker.bootstrap}"}
        broker.process.send_signal(signal.SIGTERM)
        assert received(receiver) == {"STOPPING": "1", "STATUS": "stopping"}
        assert broker.process.wait(DEADLINE_S) == 0
    receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        receiver.recv(1)


def test_a_broker_serves_although_nobody_reads_its_messages(tmp_path, manager, monkeypatch):
    receiver, name = manager
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out, subprocess.Popen(broker_command(tmp_path), stdout=out, cwd=ROOT) as process:
        try:
            assert received(receiver) == {"STATUS": "loading the logs"}
            assert received(receiver)["READY"] == "1"
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()


def test_a_failed_start_is_the_status(tmp_path, manager, monkeypatch):
    receiver, name = manager
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    broker = BrokerProcess(tmp_path / "data", {"num.partitions": "many"}).launch()
    assert received(receiver)["STATUS"].startswith("num.partitions=many: ")
    assert broker.process.wait(DEADLINE_S) == 1


def test_the_watchdog_is_fed_by_the_event_loop(manager):
    receiver, name = manager
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000", "WATCHDOG_PID": str(os.getpid())}

    async def run():
        feeding = asyncio.create_task(ServiceManager(environment).run_watchdog())
        for _ in range(3):
            assert await asyncio.to_thread(received, receiver) == {"WATCHDOG": "1"}
        feeding.cancel()

    asyncio.run(run())
    assert environment == {}  # child processes do not speak for the broker


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"WATCHDOG_USEC": "2000"},
        {"NOTIFY_SOCKET": "@none", "WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1"},
        {"NOTIFY_SOCKET": "@none", "WATCHDOG_USEC": "soon"},
    ],
)
def test_nothing_is_sent_without_a_socket_or_a_watchdog(environment, caplog):
    asyncio.run(ServiceManager(environment).run_watchdog())  # it returns
    assert caplog.text == ""


@pytest.mark.parametrize("name", ["/nowhere/notify", "@nobody", "relative", "/" + "long" * 100, "nul\0", "vsock:2:1"])
def test_a_bad_socket_is_one_warning(name, caplog):
    manager = ServiceManager({"NOTIFY_SOCKET": name})
    manager.status("one")
    manager.ready("two")
    manager.stopping()
    (record,) = caplog.records
    assert "NOTIFY_SOCKET=" in record.getMessage()


def test_a_service_manager_that_does_not_read_does_not_stop_the_broker(manager):
    sender = ServiceManager({"NOTIFY_SOCKET": manager[1]})
    for _ in range(5000):
        sender.status("x" * 1000)


# -- SIGHUP ------------------------------------------------------------------------------------------------------------


def broker_command(folder):
    words = [word for name, value in settings(folder / "data").items() for word in ("--set", f"{name}={value}")]
    return [sys.executable, "-m", "ottla", "broker", *words]


def test_a_closed_terminal_stops_the_broker_cleanly(tmp_path):
    with Terminal(broker_command(tmp_path)) as terminal:
        terminal.wait_for("Ottla is ready")
        terminal.hang_up()
        assert terminal.process.wait(DEADLINE_S) == 0
    assert (tmp_path / "data" / CLEAN).exists()


def test_nohup_keeps_the_broker_running(tmp_path):
    words = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *broker_command(tmp_path)]
    out = tmp_path / "out"
    with out.open("w") as file, subprocess.Popen(words, stdout=file, stderr=file, cwd=ROOT) as process:
        try:
            until_blocking(lambda: "Ottla is ready" in out.read_text(), "the broker is ready")
            assert is_ignored(process.pid, signal.SIGHUP)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
    assert out.read_text().count("is stopping") == 1
    assert (tmp_path / "data" / CLEAN).exists()


def is_ignored(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(re.search(r"SigIgn:\s*(\w+)", status)[1], 16) & 1 << number - 1)

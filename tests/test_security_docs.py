"""docs/security.md: its commands secure a broker from nothing, and its links exist."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cluster.ports import free_ports
from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.doc_scripts import console_examples, dead_links
from support.kerberos import need_kerberos
from support.operations import Operator
from support.polling import until_blocking

pytest.importorskip("cryptography")

PAGE = ROOT / "docs" / "security.md"
START = "ottla broker broker.properties"
TEXT = PAGE.read_text()


def section(heading: str) -> str:
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## )", TEXT, flags=re.MULTILINE | re.DOTALL)
    return str(found)


def examples(commands: list[tuple[str, str]]) -> str:
    return "".join(f"```console\n$ {command}\n{shown}```\n" for command, shown in commands)


def test_a_broker_is_secured_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = section("From nothing to a secured broker")
    (port,) = free_ports(1)
    monkeypatch.chdir(tmp_path)  # the files of the page have relative paths
    for name, content in re.findall(r"```properties\n# (\S+)\n(.*?)```", text, flags=re.DOTALL):
        Path(name).write_text(content.replace("9093", str(port)))
    commands = console_examples(text)
    start = next(number for number, (command, _) in enumerate(commands) if command == START)
    operator = Operator({}, tmp_path, {})
    operator.run(examples(commands[:start]))
    out = tmp_path / "out"
    with (
        out.open("w") as file,
        subprocess.Popen([sys.executable, "-m", *START.split()], stdout=file, stderr=file) as broker,
    ):
        try:
            until_blocking(lambda: "Ottla is ready" in out.read_text(), "the broker is ready")
            operator.run(examples(commands[start + 1 :]))
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(DEADLINE_S) == 0
        finally:
            broker.kill()
    assert 'denied: principal="User:alice"' not in out.read_text()
    assert "secret" not in out.read_text()


def test_kerberos_from_nothing_to_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_kerberos()
    text = section(r"Kerberos \(GSSAPI\)")
    port, kdc_port = free_ports(2)
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"```(?:properties|ini)\n# (\S+)\n(.*?)```", text, flags=re.DOTALL):
        Path(name).write_text(content.replace("9093", str(port)).replace("8888", str(kdc_port)))
    (exports,) = re.findall(r"^export (.*)$", text, flags=re.MULTILINE)
    for name, value in (one.split("=", 1) for one in exports.split()):
        monkeypatch.setenv(name, value.replace("$PATH", os.environ["PATH"]))
    commands = console_examples(text)
    start = next(number for number, (command, _) in enumerate(commands) if command.startswith("ottla broker"))
    operator = Operator({}, tmp_path, {})
    out = tmp_path / "out"
    try:
        operator.run(examples(commands[:start]))
        with (
            out.open("w") as file,
            subprocess.Popen([sys.executable, "-m", *commands[start][0].split()], stdout=file, stderr=file) as broker,
        ):
            try:
                until_blocking(lambda: "Ottla is ready" in out.read_text(), "the broker is ready")
                operator.run(examples(commands[start + 1 :]))
                broker.send_signal(signal.SIGTERM)
                assert broker.wait(DEADLINE_S) == 0
            finally:
                broker.kill()
    finally:
        end_kdc(tmp_path / "kdc.pid")


def end_kdc(pid_file: Path) -> None:
    """The KDC of the page runs in the background."""
    if pid_file.exists():
        os.kill(int(pid_file.read_text()), signal.SIGTERM)


def test_links_have_existing_targets() -> None:
    assert dead_links(PAGE) == []

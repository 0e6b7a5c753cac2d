from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

from ottla.cluster import ports
from ottla.cluster.ports import HOST, free_ports
from support.broker import ROOT

ADDRESS = f"127.77.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
"""Where nobody else has a port or claims one."""
FEW = range(20_000, 20_006)
OTHERS_SIDE = f"""
from ottla.cluster import ports
ports.HOST, ports.candidates = "{ADDRESS}", lambda: iter({FEW})
print(ports.free_ports(3))
input()
"""


@pytest.fixture
def few(monkeypatch):
    """All ports that there are."""
    monkeypatch.setattr(ports, "HOST", ADDRESS)
    monkeypatch.setattr(ports, "candidates", lambda: iter(FEW))
    monkeypatch.setattr(ports, "_claimed", deque())
    yield
    for claim in ports._claimed:
        os.close(claim)


def test_ports_are_free_and_differ_and_are_none_that_the_system_hands_out():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = free_ports(50)
    assert len(set(found)) == 50
    assert max(found) < first
    for port in found:
        socket.create_server((HOST, port)).close()


def test_a_port_in_use_is_not_found():
    with socket.create_server((HOST, free_ports(1)[0])) as taken:
        assert taken.getsockname()[1] not in free_ports(2_000)


def test_a_port_is_found_by_one_of_two_processes(few):
    """It is free until its server starts, and while the server restarts."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHERS_SIDE], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        theirs = json.loads(other.stdout.readline())
        ours = free_ports(3)
        assert sorted(theirs + ours) == list(FEW)
        with pytest.raises(OSError, match="no 1 ports are free"):
            free_ports(1)
        other.communicate("\n")
    assert other.returncode == 0
    assert sorted(free_ports(3)) == sorted(theirs), "the other process has ended"


def test_only_the_latest_ports_are_claimed(few, monkeypatch):
    monkeypatch.setattr(ports, "_MOST_CLAIMED", 4)
    first = free_ports(6)
    assert sorted(free_ports(2)) == sorted(first[:2])
    assert len(ports._claimed) == 4


def test_looking_for_ports_refuses_none_to_a_server_that_starts_there(few, monkeypatch):
    """Each port that is looked at is taken by a server while it is held."""
    servers = []

    class Probe(socket.socket):
        def bind(self, address):
            super().bind(address)
            if self.family == socket.AF_UNIX:
                return
            server = plain()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen()
            servers.append(server)

    plain = socket.socket
    monkeypatch.setattr("ottla.cluster.ports.socket.socket", Probe)
    found = free_ports(3)
    assert [server.getsockname()[1] for server in servers] == found
    for server in servers:
        server.close()

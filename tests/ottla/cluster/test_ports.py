from __future__ import annotations

import socket
from pathlib import Path

from ottla.cluster.ports import HOST, free_ports


def test_ports_are_free_and_differ_and_are_none_that_the_system_hands_out():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < first
    for port in ports:
        socket.create_server((HOST, port)).close()


def test_a_port_in_use_is_not_found():
    with socket.create_server((HOST, free_ports(1)[0])) as taken:
        assert taken.getsockname()[1] not in free_ports(2_000)


def test_looking_for_ports_refuses_none_to_a_server_that_starts_there(monkeypatch):
    """Each port that is looked at is taken by a server while it is held."""
    servers = []

    class Probe(socket.socket):
        def bind(self, address):
            super().bind(address)
            server = plain()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen()
            servers.append(server)

    plain = socket.socket
    monkeypatch.setattr("ottla.cluster.ports.socket.socket", Probe)
    ports = free_ports(3)
    assert [server.getsockname()[1] for server in servers] == ports
    for server in servers:
        server.close()

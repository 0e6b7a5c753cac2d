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

"""Hosts that lose packets: the network of a long run. In a thread, because a thread alone can enter a namespace."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from support.deadlines import DEADLINE_S
from support.soak.network import Host, Network, enter, why_not

T = TypeVar("T")
NOT_IN_TIME_S = 0.3


def in_thread(work: Callable[[], T], namespace: str | None = None) -> T:
    """Do it in a namespace; None: a new one."""

    def do() -> T:
        enter(namespace)
        return work()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(do).result()


def connect(host: Host, address: tuple[str, int], timeout_s: float = DEADLINE_S) -> socket.socket:
    """A connection from a host."""
    return in_thread(lambda: socket.create_connection(address, timeout_s), host.namespace)


def connects(host: Host, address: tuple[str, int]) -> bool:
    try:
        connect(host, address, NOT_IN_TIME_S).close()
    except TimeoutError:
        return False
    return True


@pytest.fixture
def allowed() -> None:
    if reason := why_not():
        pytest.skip(f"no network namespaces: {reason}")


@pytest.mark.usefixtures("allowed")
def test_packets_are_lost_until_the_network_is_healed():
    def scene() -> None:
        with Network("abc") as network:
            a, b, c = (network.hosts[name] for name in "abc")
            server = in_thread(lambda: socket.create_server((b.address, 0)), b.namespace)
            address = server.getsockname()
            client = connect(a, address)
            accepted, _ = server.accept()
            with server, client, accepted:
                for lose in (
                    lambda: network.lose("a", "b"),
                    lambda: network.lose("b", "a"),
                    lambda: network.part("a", "bc"),
                ):
                    lose()
                    assert [connects(one, address) for one in (a, c)] == [False, True]
                    network.heal()
                    connect(a, address).close()
                network.unplug("b")
                assert [connects(one, address) for one in (a, c)] == [False, False]
                client.sendall(b"x")
                accepted.settimeout(NOT_IN_TIME_S)
                with pytest.raises(TimeoutError):
                    accepted.recv(1)
                network.heal()
                accepted.settimeout(DEADLINE_S)
                assert accepted.recv(1) == b"x"  # the kernel has sent it again

    in_thread(scene)


@pytest.mark.usefixtures("allowed")
def test_hosts_end_with_the_network():
    def scene() -> list[str]:
        with Network("ab") as network:
            return [host.namespace for host in network.hosts.values()]

    namespaces = in_thread(scene)
    assert len(set(namespaces)) == 2
    with pytest.raises(OSError, match="No such file"):
        enter(namespaces[0])

"""Hosts on one machine: each has a network namespace of its own, and a cable to a hub.

Packets are lost in the kernel: to lose those to another host, a host sends them to an Ethernet address that nobody has.
Nothing of it has a name outside: `enter` gives this process a namespace for the hub, a host ends with its process, and
that ends with the pipe to it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

OWN: Final = "SOAK_NAMESPACES"
"""The environment variable with the path of a JSON file: network namespaces, by a word in the command line of who
belongs there.
"""

_CLONE_NEWNET: Final = 0x40000000
_NOBODY: Final = "02:00:00:00:ff:ff"
_HUB: Final = "10.0.0.254"
_HOLD: Final = ("unshare", "--net", "sh", "-c", "echo; exec cat")


def why_not() -> str:
    """Why there can be no hosts on this machine; "" if there can."""
    missing = [name for name in ("ip", "nsenter", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not installed"
    trial = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "hub", "type", "bridge"], capture_output=True, text=True
    )
    return trial.stderr.strip() if trial.returncode else ""


def enter(path: str | None = None) -> None:
    """Move this thread, and what it starts, into a network namespace: that of a path, or a new one with a loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if path is None:
        failed = libc.unshare(_CLONE_NEWNET)
    else:
        with Path(path).open() as namespace:
            failed = libc.setns(namespace.fileno(), _CLONE_NEWNET)
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    if path is None:
        _ip("link set lo up")


def enter_own() -> None:
    """Move this process to where it belongs."""
    file = Path(os.environ[OWN])
    namespaces = json.loads(file.read_text()) if file.exists() else {}
    for word in namespaces.keys() & set(sys.orig_argv):
        enter(namespaces[word])


class Host:
    """One of a network. `address` is its IP address."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"10.0.0.{number}"
        self.ethernet = f"02:00:00:00:00:{number:02x}"
        self._process = subprocess.Popen(_HOLD, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.namespace = f"/proc/{self._process.pid}/ns/net"
        port = f"to-{number}"
        _ip(
            f"link add {port} type veth peer name eth0 address {self.ethernet} netns {self._process.pid}",
            f"link set {port} master hub up",
        )
        self._port = port
        self.ip("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up")

    def command(self, words: Sequence[str]) -> list[str]:
        """A command on this host."""
        return ["nsenter", f"--net={self.namespace}", *words]

    def ip(self, *commands: str) -> None:
        """Change the network as this host sees it."""
        _ip(*commands, on=self)

    def reach(self, other: Host, ethernet: str) -> None:
        """Send packets for another host to this Ethernet address."""
        self.ip(f"neigh replace {other.address} lladdr {ethernet} nud permanent dev eth0")

    def unplug(self) -> None:
        """Pull the cable."""
        _ip(f"link set {self._port} down")

    def plug_in(self) -> None:
        """Put it back."""
        _ip(f"link set {self._port} up")

    def close(self) -> None:
        """End the host, when nothing runs on it any more."""
        with self._process:
            pass  # closes the pipe, and waits


class Network:
    """Hosts around the hub, which is this process's own address. Use it in a `with` statement, after `enter`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self.hosts: dict[str, Host] = {}
        self._lost: set[tuple[str, str]] = set()

    def __enter__(self) -> Network:
        _ip("link add hub type bridge", f"address add {_HUB}/24 dev hub", "link set hub up")
        for number, name in enumerate(self._names, 1):
            self.hosts[name] = Host(name, number)
        for sender in self._names:
            for receiver in self._names:
                if sender != receiver:
                    self._reach(sender, receiver)
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            host.close()

    def lose(self, sender: str, receiver: str) -> None:
        """Lose all packets from one host to another until `heal`."""
        self._lost.add((sender, receiver))
        self.hosts[sender].reach(self.hosts[receiver], _NOBODY)

    def part(self, one: Iterable[str], others: Iterable[str]) -> None:
        """Lose all packets between the hosts of two groups."""
        for here in one:
            for there in others:
                self.lose(here, there)
                self.lose(there, here)

    def unplug(self, name: str) -> None:
        """Pull the cable of a host until `heal`."""
        self.hosts[name].unplug()

    def heal(self) -> None:
        """Lose nothing any more."""
        for sender, receiver in self._lost:
            self._reach(sender, receiver)
        self._lost.clear()
        for host in self.hosts.values():
            host.plug_in()

    def _reach(self, sender: str, receiver: str) -> None:
        self.hosts[sender].reach(self.hosts[receiver], self.hosts[receiver].ethernet)


def _ip(*commands: str, on: Host | None = None) -> None:
    words = ["ip", "-batch", "-"]
    subprocess.run(on.command(words) if on else words, input="\n".join(commands), text=True, check=True)

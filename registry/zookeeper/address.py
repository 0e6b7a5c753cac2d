"""`zookeeper.connect`: where the ensemble is, and which part of its tree is ours.

    host[:port][,host[:port]…][/chroot]

A host may be a name, an IPv4 address or an IPv6 address in brackets; the port is 2181 where none is given. The chroot
is for all of them and stands once, at the end. Names are not looked up here but at every attempt to connect: servers
of an ensemble come back at other addresses.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from protocol.host_port import HostPort
from registry.errors import BadArgumentsError
from registry.paths import validate_path

DEFAULT_PORT = 2181


class ZooKeeperAddress(NamedTuple):
    """The servers of an ensemble, and the node that is our root ("" for the real one)."""

    servers: tuple[HostPort, ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> ZooKeeperAddress:
        """Read a `zookeeper.connect`. Raises BadArgumentsError naming the part and the rule."""
        hosts, slash, path = text.partition("/")
        chroot = (slash + path).strip()
        if chroot == "/":
            chroot = ""
        if chroot:
            if "," in chroot:
                raise BadArgumentsError(f"{text!r}: the chroot stands once, after the last host", chroot)
            validate_path(chroot)
        return cls(tuple(_server(part.strip(), text) for part in hosts.split(",")), chroot)

    @property
    def hosts(self) -> str:
        """The servers in the form of `zookeeper.connect`, without the chroot."""
        return ",".join(map(str, self.servers))

    def __str__(self) -> str:
        return self.hosts + self.chroot

    def full(self, path: str) -> str:
        """The path as the servers know it."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def local(self, path: str) -> str:
        """The path of a server as we know it."""
        return path[len(self.chroot) :] or "/"


def _server(part: str, text: str) -> HostPort:
    try:
        split = urlsplit(f"//{part}")
        host, port = split.hostname, split.port
    except ValueError:
        host = port = None
    if not host or port == 0 or split.username is not None or split.query or split.fragment:
        raise BadArgumentsError(f"{text!r}: {part!r} is no host:port")
    return HostPort(host, DEFAULT_PORT if port is None else port)

"""`zookeeper.connect`: the servers of the ensemble, and the chroot.

    host[:port][,host[:port]…][/chroot]

A host is a name, an IPv4 address or an IPv6 address in brackets; the default port is 2181. The chroot is given once, at
the end. Names are resolved at every attempt to connect, not here: the address of a server may change.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from protocol.host_port import HostPort
from registry.errors import BadArgumentsError
from registry.paths import validate_path

DEFAULT_PORT = 2181


class ZooKeeperAddress(NamedTuple):
    """The servers of an ensemble, and the chroot ("" for the root)."""

    servers: tuple[HostPort, ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> ZooKeeperAddress:
        """Parse a `zookeeper.connect`. Raises BadArgumentsError, which names the part and the rule."""
        hosts, slash, path = text.partition("/")
        chroot = (slash + path).strip()
        if chroot == "/":
            chroot = ""
        if chroot:
            if "," in chroot:
                raise BadArgumentsError(f"{text!r}: the chroot must be given once, after the last host", chroot)
            validate_path(chroot)
        return cls(tuple(_server(part.strip(), text) for part in hosts.split(",")), chroot)

    @property
    def hosts(self) -> str:
        """The servers in the form of `zookeeper.connect`, without the chroot."""
        return ",".join(map(str, self.servers))

    def __str__(self) -> str:
        return self.hosts + self.chroot

    def full(self, path: str) -> str:
        """Return the path on the servers, with the chroot."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def local(self, path: str) -> str:
        """Return a path of the servers without the chroot."""
        return path[len(self.chroot) :] or "/"


def _server(part: str, text: str) -> HostPort:
    try:
        split = urlsplit(f"//{part}")
        host, port = split.hostname, split.port
    except ValueError:
        host = port = None
    if not host or port == 0 or split.username is not None or split.query or split.fragment:
        raise BadArgumentsError(f"{text!r}: {part!r} is not a host:port")
    return HostPort(host, DEFAULT_PORT if port is None else port)

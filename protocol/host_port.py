"""The address of a server, as Kafka and ZooKeeper write it: `host:port`, an IPv6 address in brackets."""

from __future__ import annotations

from typing import NamedTuple


class HostPort(NamedTuple):
    """A host (a name or an address without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


def bracketed(host: str) -> str:
    """The host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def unbracketed(host: str) -> str:
    """The host of an address without the brackets of an IPv6 address."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host

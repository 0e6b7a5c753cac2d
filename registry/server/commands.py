"""ZooKeeper's commands of four letters: `echo ruok | nc 127.0.0.1 2181`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.server.server import RegistryServer

# Clients compare the version with the first one that has a feature: it names the protocol that the server speaks.
_VERSION = "3.9.0-ottla"


def answer_of(word: bytes, server: RegistryServer) -> bytes | None:
    """Return the answer to a command; None if there is no such command."""
    command = _COMMANDS.get(word)
    return None if command is None else command(server).encode()


def _envi(_: RegistryServer) -> str:
    return f"Environment:\nzookeeper.version={_VERSION}\nhost.name={socket.gethostname()}\n"


def _srvr(server: RegistryServer) -> str:
    return "".join(f"{name}: {value}\n" for name, value in _facts(server).items())


def _stat(server: RegistryServer) -> str:
    clients = "".join(
        f" /{one.address}[{1 if one.session else 0}](queued={one.outstanding},recved={one.received},sent={one.sent})\n"
        for one in server.connections
    )
    version, *others = _srvr(server).splitlines(keepends=True)
    return f"{version}Clients:\n{clients}\n{''.join(others)}"


def _facts(server: RegistryServer) -> dict[str, object]:
    return {
        "Zookeeper version": _VERSION,
        "Received": sum(one.received for one in server.connections),
        "Sent": sum(one.sent for one in server.connections),
        "Connections": len(server.connections),
        "Outstanding": sum(one.outstanding for one in server.connections),
        "Zxid": f"0x{server.store.tree.zxid:x}",
        "Mode": "standalone",
        "Node count": len(server.store.tree.nodes),
    }


def _mntr(server: RegistryServer) -> str:
    nodes = server.store.tree.nodes
    values = {
        "zk_version": _VERSION,
        "zk_server_state": "standalone",
        "zk_packets_received": sum(one.received for one in server.connections),
        "zk_packets_sent": sum(one.sent for one in server.connections),
        "zk_num_alive_connections": len(server.connections),
        "zk_outstanding_requests": sum(one.outstanding for one in server.connections),
        "zk_znode_count": len(nodes),
        "zk_watch_count": sum(len(one.watches) for one in server.connections),
        "zk_ephemerals_count": sum(1 for node in nodes.values() if node.is_ephemeral),
        "zk_approximate_data_size": sum(len(path) + len(node.data or b"") for path, node in nodes.items()),
        "zk_global_sessions": len(server.sessions),
    }
    return "".join(f"{name}\t{value}\n" for name, value in values.items())


_COMMANDS: dict[bytes, Callable[[RegistryServer], str]] = {
    b"ruok": lambda _: "imok",
    b"isro": lambda _: "rw",
    b"envi": _envi,
    b"srvr": _srvr,
    b"stat": _stat,
    b"mntr": _mntr,
}

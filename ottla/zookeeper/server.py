"""A ZooKeeper server process, and, for development and tests, an ensemble of one or several on this machine.

A server is ready when a client can open a session. The answer to `ruok` is no proof: it comes even if sessions hang.

    data_dir/.lock         see `ottla.cluster.registry_servers`
    data_dir/node-<n>/     the files of one server, see `ottla.zookeeper.files`
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from ottla.cluster.ports import HOST, free_ports
from ottla.cluster.registry_servers import RegistryServers, ServerProcess, require_free
from ottla.command_line.failure import CommandError
from ottla.zookeeper.files import Peer, server_command, write_configuration

KIND = "ZooKeeper"
_ATTEMPTS = 3  # to find ports that no other process takes meanwhile


class ZooKeeperServer(ServerProcess):
    """One server process on the files of its folder."""

    kind = KIND

    def command(self) -> list[str]:
        """Return the command that runs the server. Raises CommandError if Java or a jar is missing."""
        return server_command(self.folder)


class ZooKeeperEnsemble(RegistryServers):
    """One or several ZooKeeper servers, from `start` to `close`. `start` waits until they serve."""

    def __init__(self, data_dir: Path | None = None, *, nodes: int = 1, port: int = 0, sync: bool = True) -> None:
        """Create an ensemble; without `data_dir` its data is temporary.

        `port` is the port of the first server, 0 for any free ports. Without `sync`, the servers do not sync writes to
        the disk: for tests without power cuts.
        """
        if nodes < 1:
            raise CommandError(f"{nodes} ZooKeeper nodes: must be at least 1")
        super().__init__(data_dir, KIND)
        self._count = nodes
        self._first_port = port
        self._sync = sync

    async def _start_servers(self, lock: IO[bytes]) -> None:
        self._check_count()
        for attempt in range(1, _ATTEMPTS + 1):
            self._configure()
            for server in self.servers:
                server.start(lock)
            try:
                await self.wait()
            except CommandError as error:
                self._stop()
                if attempt == _ATTEMPTS or "in use" not in str(error):
                    raise
            else:
                return

    def _check_count(self) -> None:
        there = len(list(self.data_dir.glob("node-*")))
        if there not in (0, self._count):
            raise CommandError(f"{self.data_dir} has data of {there} ZooKeeper nodes, not {self._count}")

    def _configure(self) -> None:
        count = self._count
        ports = free_ports(3 * count)
        client_ports, quorum_ports, election_ports = ports[:count], ports[count : 2 * count], ports[2 * count :]
        if self._first_port:
            client_ports = list(range(self._first_port, self._first_port + count))
            for port in client_ports:
                require_free(port)
        peers = [Peer(HOST, *pair) for pair in zip(quorum_ports, election_ports, strict=True)]
        servers = [
            ZooKeeperServer(self.data_dir / f"node-{number}", port) for number, port in enumerate(client_ports, 1)
        ]
        self.servers = [*servers]
        for number, server in enumerate(servers, 1):
            write_configuration(server.folder, number, peers, listen=HOST, port=server.port, sync=self._sync)

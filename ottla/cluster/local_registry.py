"""`ottla registry` as a child process.

data_dir/.lock             locked while the process runs
data_dir/registry.sqlite   the tree and the sessions
data_dir/server.log        what the process prints

The socket listens before the process starts, and the process inherits it. So clients may start at the same time: their
connections wait until the process serves.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import IO

from ottla.cluster.ports import HOST, free_ports
from ottla.cluster.registry_servers import RegistryServers, ServerProcess
from ottla.command_line.failure import CommandError

KIND = "registry"


class LocalRegistry(RegistryServers):
    """One server of the embedded registry. `start` does not wait until it serves; `wait` does."""

    def __init__(self, data_dir: Path | None = None, *, port: int = 0) -> None:
        """Create it; without `data_dir` its data is temporary. `port` 0: any free port."""
        super().__init__(data_dir, KIND)
        self._port = port

    async def _start_servers(self, lock: IO[bytes]) -> None:
        port = self._port or free_ports(1)[0]
        try:
            listener = socket.create_server((HOST, port), backlog=socket.SOMAXCONN)
        except OSError as error:
            raise CommandError(f"cannot listen on {HOST}:{port}: {os.strerror(error.errno or 0)}") from None
        with listener:
            server = _RegistryProcess(self.data_dir, port)
            self.servers = [server]
            server.start_on(listener, lock)

    def ensure_running(self) -> None:
        """Start the server again, on its port and with its data, if its process has ended since `start`."""
        if self._lock is not None and not self.is_running:
            self.servers[0].start(self._lock)


class _RegistryProcess(ServerProcess):
    """`ottla registry`, which speaks ZooKeeper's protocol."""

    kind = KIND
    _listener: socket.socket | None = None

    def command(self) -> list[str]:
        """Return the command that runs the registry."""
        # -P: a module in the working directory must not hide one of Ottla's packages.
        words = [sys.executable, "-P", "-m", "ottla", "registry", "--data-dir", str(self.folder)]
        if self._listener is not None:
            return [*words, "--fd", str(self._listener.fileno())]
        return [*words, "--listen", self.host, "--port", str(self.port)]

    def start_on(self, listener: socket.socket, lock: IO[bytes]) -> None:
        """Start the process on a socket that listens already. `start`, after a kill, opens the port again."""
        self._listener = listener
        try:
            self.start(listener, lock)
        finally:
            self._listener = None

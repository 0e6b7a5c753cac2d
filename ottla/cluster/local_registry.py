"""`ottla registry` as a child process, in the place of a ZooKeeper.

data_dir/.lock             locked while the process runs
data_dir/registry.sqlite   the tree
data_dir/server.log        what the process prints
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.cluster.ports import free_ports
from ottla.zookeeper.server import ZooKeeperEnsemble, ZooKeeperServer, require_free


class LocalRegistry(ZooKeeperEnsemble):
    """One server of the embedded registry, which is started, watched and stopped as a ZooKeeper is."""

    def __init__(self, data_dir: Path | None = None, *, port: int = 0) -> None:
        """Create it; without `data_dir` its data is temporary. `port` 0: any free port."""
        super().__init__(data_dir, nodes=1, port=port)

    def _configure(self) -> None:
        if self._first_port:
            require_free(self._first_port)
        port = self._first_port or free_ports(1)[0]
        self.servers = [_RegistryProcess(self.data_dir, port)]


class _RegistryProcess(ZooKeeperServer):
    """`ottla registry`, which speaks ZooKeeper's protocol."""

    def command(self) -> list[str]:
        """Return the command that runs the registry."""
        # -P: a module in the working directory must not hide one of Ottla's packages.
        words = (sys.executable, "-P", "-m", "ottla", "registry", "--listen", self.host)
        return [*words, "--port", str(self.port), "--data-dir", str(self.folder)]

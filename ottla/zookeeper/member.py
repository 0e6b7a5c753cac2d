"""One server of a ZooKeeper ensemble; the other servers run on other machines or in other containers.

`data_dir` has the lock and the files of the server (see `ottla.zookeeper.files`). The server writes to the output of
this process. It serves once a majority of the ensemble runs, so the start has no timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ottla.cluster.ports import HOST
from ottla.cluster.registry_servers import STOP_TIMEOUT_S, take_directory
from ottla.cluster.serving import wait_until_serving
from ottla.command_line.failure import CommandError
from ottla.zookeeper.files import EVERY_INTERFACE, Peer, write_configuration
from ottla.zookeeper.server import KIND, ZooKeeperServer


class ZooKeeperMember:
    """Server `number` (from 1) of the ensemble of `peers`, from `start` to `close`."""

    def __init__(self, data_dir: Path, number: int, peers: Sequence[Peer], *, listen: str, port: int) -> None:
        """`listen` and `port` are for clients. Raises CommandError if `number` is not 1 to the number of peers."""
        if not 1 <= number <= len(peers):
            raise CommandError(f"--id {number} must be from 1 to {len(peers)}, the number of servers")
        self.data_dir = data_dir.resolve()
        self._number = number
        self._peers = peers
        self._listen = listen
        self._server = ZooKeeperServer(self.data_dir, port, host=HOST if listen in EVERY_INTERFACE else listen)
        self._lock: IO[bytes] | None = None

    @property
    def servers(self) -> list[ZooKeeperServer]:
        """The server that runs on this machine, as a list."""
        return [self._server]

    @property
    def connect(self) -> str:
        """The address for clients on this machine, host:port."""
        return self._server.address

    async def start(self) -> None:
        """Start the server and wait until it serves. Raises CommandError if it ends first."""
        try:
            self._lock = take_directory(self.data_dir, KIND)
            self._check_number()
            peers = self._peers
            write_configuration(self.data_dir, self._number, peers, listen=self._listen, port=self._server.port)
            self._server.start(self._lock, to_file=False)
            await wait_until_serving(self._server)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server. Idempotent."""
        self._server.terminate()
        self._server.wait(STOP_TIMEOUT_S)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_number(self) -> None:
        """Raise CommandError if the data is another server's: a server must not take over another server's votes."""
        number = self.data_dir / "data" / "myid"
        if number.exists() and number.read_text().strip() != str(self._number):
            raise CommandError(f"{self.data_dir} has data of server {number.read_text().strip()}, not {self._number}")

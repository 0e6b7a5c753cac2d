"""A ZooKeeper server process, and, for development and tests, an ensemble of one or several on this machine.

A server is ready when a client can open a session. The answer to `ruok` is no proof: it comes even if sessions hang.

    data_dir/.lock         locked while the servers run: two ensembles on the same data would destroy it
    data_dir/node-<n>/     the files of one server, see `ottla.zookeeper.files`
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Self

from ottla.cluster.child_environment import child_environment
from ottla.cluster.ports import HOST, free_ports
from ottla.command_line.failure import CommandError
from ottla.zookeeper.files import Peer, server_command, write_configuration
from registry.errors import ConnectionLossError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.session import ZooKeeperSession

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
_ATTEMPTS = 3  # to find ports that no other process takes meanwhile


class ZooKeeperServer:
    """One server process on the files of its folder."""

    def __init__(self, folder: Path, port: int, *, host: str = HOST) -> None:
        """`host` and `port` are the address for clients on this machine."""
        self.folder = folder
        self.host = host
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._to_file = True

    @property
    def pid(self) -> int | None:
        """The process id; None if the process does not run."""
        return self._process.pid if self.is_running and self._process is not None else None

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended (it may be paused)."""
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{self.host}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs the server. Raises CommandError if Java or a jar is missing."""
        return server_command(self.folder)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def start(self, lock: IO[bytes] | None = None, *, to_file: bool = True) -> None:
        """Start the process; `wait_until_serving` waits until it is ready.

        Its output goes to server.log, or without `to_file` to the output of this process. The process inherits `lock`:
        if this process is killed, the directory stays locked while the server runs.
        """
        command = self.command()
        self._to_file = to_file
        with self._log.open("wb") as log:
            output = log if to_file else None
            # In its own session: Ctrl-C at the terminal reaches only this process, which stops the servers in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=child_environment(),
                start_new_session=True,
                pass_fds=() if lock is None else (lock.fileno(),),
            )

    def kill(self) -> None:
        """Kill the process, to simulate a crash."""
        if self._process is not None:
            self.resume()
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Pause the process: its connections stay open, but it does not respond."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Send SIGTERM to the process; `wait` or `kill` must follow."""
        if self._process is not None:
            self.resume()
            self._process.terminate()

    def wait(self, timeout_s: float) -> None:
        """Wait until the process ends; kill it when the timeout expires."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def mode(self) -> str:
        """Return the role that the server reports: standalone, leader or follower; "" if it does not serve."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        return next((line.removeprefix("Mode: ") for line in answer.splitlines() if line.startswith("Mode: ")), "")

    def last_words(self) -> str:
        """Return the signal that ended the server, or its last error or line of output, for an error message."""
        if self._process is not None and (code := self._process.poll()) is not None and code < 0:
            return f"by {signal.Signals(-code).name}"
        if not self._to_file:
            return "its output is above"
        lines = self._log.read_text(errors="replace").splitlines()
        for sign in ("Exception: ", " ERROR "):
            for line in reversed(lines):
                if sign in line:
                    return line.strip()
        return lines[-1].strip() if lines else "it printed nothing"


class ZooKeeperEnsemble:
    """One or several ZooKeeper servers, from `start` to `close`."""

    def __init__(self, data_dir: Path | None = None, *, nodes: int = 1, port: int = 0, sync: bool = True) -> None:
        """Create an ensemble; without `data_dir` its data is temporary.

        `port` is the port of the first server, 0 for any free ports. Without `sync`, the servers do not sync writes to
        the disk: for tests without power cuts.
        """
        if nodes < 1:
            raise CommandError(f"{nodes} ZooKeeper nodes: must be at least 1")
        self._is_temporary = data_dir is None
        self._count = nodes
        self._first_port = port
        self._sync = sync
        self.data_dir = Path(tempfile.mkdtemp(prefix="ottla-zookeeper-")) if data_dir is None else data_dir.resolve()
        self.servers: list[ZooKeeperServer] = []
        self._lock: IO[bytes] | None = None

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`."""
        return ",".join(server.address for server in self.servers)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def start(self) -> None:
        """Start all servers and wait until each can open a session. Raises CommandError with a server's last output."""
        try:
            self._lock = take_directory(self.data_dir)
            self._check_count()
            for attempt in range(1, _ATTEMPTS + 1):
                self._configure()
                for server in self.servers:
                    server.start(self._lock)
                try:
                    await self.wait()
                except CommandError as error:
                    self._stop()
                    if attempt == _ATTEMPTS or "in use" not in str(error):
                        raise
                else:
                    return
        except BaseException:
            self.close()
            raise

    async def wait(self) -> None:
        """Wait until every running server can open a session. Raises CommandError."""
        running = [server for server in self.servers if server.is_running]
        await asyncio.gather(*(wait_until_serving(server, START_TIMEOUT_S) for server in running))

    def close(self) -> None:
        """Stop all servers, and remove the data if it was temporary. Idempotent."""
        self._stop()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _stop(self) -> None:
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.wait(STOP_TIMEOUT_S)

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
        self.servers = [
            ZooKeeperServer(self.data_dir / f"node-{number}", port) for number, port in enumerate(client_ports, 1)
        ]
        for number, server in enumerate(self.servers, 1):
            write_configuration(server.folder, number, peers, listen=HOST, port=server.port, sync=self._sync)


def take_directory(folder: Path) -> IO[bytes]:
    """Lock a data directory until the returned file is closed. Raises CommandError if another process has locked it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / ".lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CommandError(f"{folder} is in use by another ZooKeeper") from None
    return lock


async def wait_until_serving(server: ZooKeeperServer, timeout_s: float = math.inf) -> None:
    """Wait until a server can open a session. Raises CommandError if it ends or the timeout expires."""
    address = ZooKeeperAddress.parse(server.address)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        if not server.is_running:
            raise CommandError(f"ZooKeeper on {server.address} ended: {server.last_words()}")
        session = ZooKeeperSession(address, 10_000, lambda _session, _state: None)
        try:
            await session.open(500)
        except ConnectionLossError as error:
            if loop.time() > deadline:
                raise CommandError(f"ZooKeeper is not ready after {timeout_s:.0f} s: {error}") from None
        else:
            await session.close()
            return


def require_free(port: int) -> None:
    """Raise CommandError if the port is in use: another ZooKeeper may listen there and answer instead of Ottla's."""
    try:
        socket.create_server((HOST, port)).close()
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise CommandError(f"cannot listen on {HOST}:{port}: {reason}") from None

"""The server processes of a registry on this machine: ZooKeeper, or `ottla registry`.

data_dir/.lock    locked while the servers run: two registries on the same data would destroy it
folder/server.log what a server prints
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, ClassVar, Protocol, Self

from ottla.cluster.child_environment import child_environment
from ottla.cluster.ports import HOST
from ottla.command_line.failure import CommandError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class ServerProcess(ABC):
    """One server process on the files of its folder."""

    kind: ClassVar[str]
    """The name of the server, for messages."""

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

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the server. Raises CommandError if something that it needs is missing."""

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def start(self, *inherited: _HasDescriptor, to_file: bool = True) -> None:
        """Start the process; `wait_until_serving` waits until it is ready.

        Its output goes to server.log, or without `to_file` to the output of this process. The process inherits the
        open files `inherited`. With the lock of the directory, the directory stays locked while the server runs, also
        if this process is killed.
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
                pass_fds=[one.fileno() for one in inherited],
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


class RegistryServers(ABC):
    """The servers of one registry, from `start` to `close`."""

    def __init__(self, data_dir: Path | None, kind: str) -> None:
        """Create it; without `data_dir` its data is temporary. kind: the name of the servers, for messages."""
        self._is_temporary = data_dir is None
        self._kind = kind
        self.data_dir = Path(tempfile.mkdtemp(prefix="ottla-registry-")) if data_dir is None else data_dir.resolve()
        self.servers: list[ServerProcess] = []
        self._lock: IO[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a server runs."""
        return any(server.is_running for server in self.servers)

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
        """Start all servers. Clients may connect then. Raises CommandError with a server's last output."""
        try:
            self._lock = take_directory(self.data_dir, self._kind)
            await self._start_servers(self._lock)
        except BaseException:
            self.close()
            raise

    @abstractmethod
    async def _start_servers(self, lock: IO[bytes]) -> None:
        """Set `servers` and start them; they inherit the lock. Raises CommandError."""

    async def wait(self) -> None:
        """Wait until every running server can open a session. Raises CommandError."""
        # The import of kazoo costs 25 ms, and `ottla cluster` does without it.
        from ottla.cluster.serving import wait_until_serving

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


def take_directory(folder: Path, what: str) -> IO[bytes]:
    """Lock a data directory until the returned file is closed.

    what: the kind of server, for the CommandError that is raised if another process has locked the directory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / ".lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CommandError(f"{folder} is in use by another {what}") from None
    return lock


def require_free(port: int) -> None:
    """Raise CommandError if the port is in use: another ZooKeeper may listen there and answer instead of Ottla's."""
    try:
        socket.create_server((HOST, port)).close()
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise CommandError(f"cannot listen on {HOST}:{port}: {reason}") from None

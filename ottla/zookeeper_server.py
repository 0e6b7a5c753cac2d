"""Real ZooKeepers for development and tests: one process or an ensemble of three, on this machine only.

pyspark's jars hold a ZooKeeper server; they are found without importing pyspark. A server is ready when it opens a
session: `ruok` is answered even where sessions hang.

    data_dir/.lock               held while the servers run: two ensembles on the same data would destroy it
    data_dir/node-<n>/data       what ZooKeeper keeps
    data_dir/node-<n>/zoo.cfg    written anew at each start: the ports may be others
    data_dir/node-<n>/server.log
"""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import signal
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Self

from ottla.failure import CommandError
from ottla.java import find_java
from registry.errors import ConnectionLossError
from registry.zookeeper_address import ZooKeeperAddress

HOST = "127.0.0.1"
JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
LOGGING_JARS = ("log4j-slf4j2-impl", "log4j-api", "log4j-core")
JAVA_OPTIONS = (
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmxDisable=true",
)
TICK_MS = 250
MIN_SESSION_MS = 2 * TICK_MS
MAX_SESSION_MS = 120_000
START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_ATTEMPTS = 3  # at finding ports that nobody takes meanwhile

_LOGGING = """\
status = off
appender.file.type = Console
appender.file.name = file
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.connection.name = org.apache.zookeeper.server.NIOServerCnxn
logger.connection.level = error
"""


class ZooKeeperServer:
    """One server process, with its own directory and ports."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self.folder = folder
        self.port, self.quorum_port, self.election_port = ports
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return self._process.pid if self.is_running and self._process is not None else None

    @property
    def is_running(self) -> bool:
        """Whether the process lives (it may be paused)."""
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Start the process; `ZooKeeperEnsemble.wait` waits until it serves."""
        jars = [*_jars(JARS), *_jars(LOGGING_JARS)]
        logging = self.folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        command = [
            str(find_java()),
            *JAVA_OPTIONS,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            ":".join(str(jar) for jar in jars),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]
        with (self.folder / "server.log").open("wb") as log:
            # In a session of its own: Ctrl-C at the terminal is for us, and we stop it in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            self.resume()
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Have the process stand still: its connections stay open and say nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask the process to end; `kill` afterwards makes sure."""
        if self._process is not None:
            self.resume()
            self._process.terminate()

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of the process, and end it when it takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def mode(self) -> str:
        """Its part in the ensemble, by its own word: standalone, leader, follower; "" where it does not serve."""
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        return next((line.removeprefix("Mode: ") for line in answer.splitlines() if line.startswith("Mode: ")), "")

    def last_words(self) -> str:
        """What it said last, for an error message."""
        lines = (self.folder / "server.log").read_text(errors="replace").splitlines()
        for sign in ("Exception: ", " ERROR "):
            for line in reversed(lines):
                if sign in line:
                    return line.strip()
        return lines[-1].strip() if lines else "it said nothing"


class ZooKeeperEnsemble:
    """One ZooKeeper or three, from their first start until `close`."""

    def __init__(self, data_dir: Path | None = None, *, nodes: int = 1, port: int = 0, sync: bool = True) -> None:
        """Without a directory the data is temporary. `port` is the first server's, 0 for one that is free.

        Without `sync` a write does not wait for the disk: for tests, where no power cut is part of the plot.
        """
        if nodes < 1:
            raise CommandError(f"{nodes} ZooKeeper nodes are too few")
        self._is_temporary = data_dir is None
        self._count = nodes
        self._first_port = port
        self._sync = sync
        self.data_dir = Path(tempfile.mkdtemp(prefix="ottla-zookeeper-")) if data_dir is None else data_dir.resolve()
        self.servers: list[ZooKeeperServer] = []
        self._lock: IO[bytes] | None = None

    @property
    def connect(self) -> str:
        """What goes into `zookeeper.connect`."""
        return ",".join(server.address for server in self.servers)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def start(self) -> None:
        """Start all servers and wait until each opens a session. Raises CommandError with what a server said last."""
        try:
            self._take_directory()
            for attempt in range(1, _ATTEMPTS + 1):
                self._configure()
                for server in self.servers:
                    server.start()
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
        """Wait until every server that runs opens a session. Raises CommandError."""
        await asyncio.gather(*(_ready(server) for server in self.servers if server.is_running))

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
            server.wait(_STOP_TIMEOUT_S)

    def _take_directory(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = (self.data_dir / ".lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(f"{self.data_dir} is in the hands of another ZooKeeper") from None
        there = len(list(self.data_dir.glob("node-*")))
        if there not in (0, self._count):
            raise CommandError(f"{self.data_dir} is that of {there} ZooKeeper nodes, not of {self._count}")

    def _configure(self) -> None:
        ports = _free_ports(3 * self._count)
        if self._first_port:
            wanted = range(self._first_port, self._first_port + self._count)
            for port in wanted:
                _require_free(port)
            ports[0 : 3 * self._count : 3] = wanted
        folders = [self.data_dir / f"node-{number}" for number in range(1, self._count + 1)]
        self.servers = [
            ZooKeeperServer(folder, ports[index * 3 : index * 3 + 3]) for index, folder in enumerate(folders)
        ]
        for number, server in enumerate(self.servers, 1):
            data = server.folder / "data"
            data.mkdir(parents=True, exist_ok=True)
            (data / "myid").write_text(f"{number}\n")
            (server.folder / "zoo.cfg").write_text(self._config(server))

    def _config(self, server: ZooKeeperServer) -> str:
        lines = [
            f"tickTime={TICK_MS}",
            f"minSessionTimeout={MIN_SESSION_MS}",
            f"maxSessionTimeout={MAX_SESSION_MS}",
            f"dataDir={server.folder / 'data'}",
            f"clientPort={server.port}",
            f"clientPortAddress={HOST}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr,mntr,ruok",
            f"forceSync={'yes' if self._sync else 'no'}",
            f"initLimit={10_000 // TICK_MS}",
            f"syncLimit={5_000 // TICK_MS}",
        ]
        if self._count > 1:
            lines += [
                f"server.{number}={HOST}:{one.quorum_port}:{one.election_port}"
                for number, one in enumerate(self.servers, 1)
            ]
        return "\n".join([*lines, ""])


async def _ready(server: ZooKeeperServer) -> None:
    from registry.zookeeper_session import ZooKeeperSession

    address = ZooKeeperAddress.parse(server.address)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_TIMEOUT_S
    while True:
        if not server.is_running:
            raise CommandError(f"ZooKeeper on {server.address} ended: {server.last_words()}")
        session = ZooKeeperSession(address, 10_000, lambda _session, _state: None)
        try:
            await session.open(500)
        except ConnectionLossError as error:
            if loop.time() > deadline:
                raise CommandError(f"ZooKeeper is not ready after {START_TIMEOUT_S:.0f} s: {error}") from None
        else:
            await session.close()
            return


def _require_free(port: int) -> None:
    """Raise CommandError where somebody listens on the port: it might be a ZooKeeper, and answer in ours' place."""
    try:
        socket.create_server((HOST, port)).close()
    except (OSError, OverflowError) as error:
        raise CommandError(f"cannot listen on {HOST}:{port}: {getattr(error, 'strerror', None) or error}") from None


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all are asked for before any is given back."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _jars(names: tuple[str, ...]) -> list[Path]:
    """The jars of pyspark with these names. Raises CommandError naming what to install."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CommandError("a ZooKeeper server comes with pyspark, which is not there: pip install 'ottla[zookeeper]'")
    folder = Path(spec.origin).parent / "jars"
    found = []
    for name in names:
        jars = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not jars:
            raise CommandError(f"{folder} has no {name}: this pyspark cannot give us a ZooKeeper server")
        found.append(jars[-1])
    return found

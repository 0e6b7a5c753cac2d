"""A server under measurement: its process, what it costs, and how it is started with an empty directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def directory() -> Path:
    """Where files go: in memory where there is enough of it, for a disk's write-back shows up as CPU time."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 8_000_000_000:
        return memory
    return Path(tempfile.gettempdir())


def touch_memory(base: Path, size: int) -> None:
    """Makes the page cache use `size` bytes once.

    Memory that a virtual machine has never used costs several times the CPU at its first use, and would be
    charged to whichever server comes upon it.
    """
    path = base / f"bench-touch-{os.getpid()}"
    block = bytes(1_000_000)
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block)):
            file.write(block)
    path.unlink()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client_settings(authority: Path | str | None) -> dict[str, str]:
    """What librdkafka needs to connect: nothing, or TLS with this authority."""
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority)} if authority else {}


class Server(ABC):
    """Context manager: a started process on a free port, with a directory that goes when it goes."""

    name = "server"
    authority: Path | None = None
    """The certificate that clients trust, if the server speaks TLS."""

    def __init__(self, base: Path | None = None) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-", dir=base))
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0

    @abstractmethod
    def command(self) -> list[str]:
        """What is run."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """A topic with one replica."""

    def __enter__(self) -> Server:
        self.start()
        return self

    def start(self) -> None:
        """Start the process; returns when it listens."""
        log = (self.directory / "output").open("wb")
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(self.command(), cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        deadline = time.monotonic() + 30
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = (self.directory / "output").read_text(errors="replace")
                self.__exit__()
                raise SystemExit(f"benchmarks: {self.name} did not start:\n{text[-2000:]}")
            time.sleep(0.002)

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop(self) -> None:
        """End the process as a user does; what it has written stays."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def cpu_seconds(self) -> float:
        """User and system time of the process and of children that it waited for.

        /proc counts in ticks of 10 ms; the scheduler's nanoseconds of the threads alive are the finer reading
        where the kernel has them.
        """
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
        nanoseconds = 0
        try:
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                nanoseconds += int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError):
            return ticks
        fine = nanoseconds / 1e9
        # Threads that ended are only in the ticks.
        return fine if abs(fine - ticks) < 0.03 else ticks

    def rss_bytes(self, field: str = "VmRSS") -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        return 0


class Floor(Server):
    """benchmarks/floor_server.py: a topic's partitions are told by its name."""

    name = "floor"

    def command(self) -> list[str]:
        module = [sys.executable, "-m", "benchmarks.floor_server"]
        return [*module, "--port", str(self.port), "--directory", str(self.directory)]

    def create_topic(self, topic: str, partitions: int) -> None:
        if partitions != 1 and not topic.endswith(f"-{partitions}p"):
            raise ValueError(f"the floor takes the partitions from the topic's name: {topic} is not …-{partitions}p")


class Ottla(Server):
    """The broker as a user starts it, with its defaults apart from port, directory and console."""

    name = "ottla"

    def command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.directory / "data"),
            "ottla.console.listener": "",
        }
        module = [sys.executable, "-m", "broker"]
        return [*module, *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]

    def create_topic(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap, **client_settings(self.authority)})
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(30)


SERVERS: dict[str, type[Server]] = {"floor": Floor, "ottla": Ottla}

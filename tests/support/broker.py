"""Real brokers for tests: in this process, or as a process of their own that can be killed."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from ottla.cluster.ports import free_ports
from support.deadlines import DEADLINE_S
from support.fork_server import ROOT, ForkedProcess, run_module
from support.polling import until, until_blocking

__all__ = ["ROOT", "BrokerProcess", "broker_process", "running_broker", "settings", "until_leader"]
READY = "\nTry, in another terminal:"


def settings(log_dir: Path, **overrides: str) -> dict[str, str]:
    """Settings of a broker on a port that the system picks, without a console. Names have _ for each dot."""
    base = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(log_dir),
        "ottla.console.listener": "",
    }
    return base | {name.replace("_", "."): value for name, value in overrides.items()}


@contextlib.asynccontextmanager
async def running_broker(log_dir: Path, **overrides: str) -> AsyncIterator[Broker]:
    """Run a broker in this process; it is ready when the block begins."""
    config = BrokerConfig.load(None, settings(log_dir, **overrides))
    async with Broker(config) as broker:
        yield broker


async def until_leader(broker: Broker, topic: str, partition: int = 0) -> None:
    """Wait until this broker leads a partition: its state in the registry changes before."""
    assert broker.services is not None
    partitions = broker.services.replicas.partitions

    def is_leader() -> bool:
        found = partitions.get((topic, partition))
        return found is not None and found.is_leader

    await until(is_leader, f"broker {broker.config.broker_id} leads {topic}-{partition}")


class BrokerProcess:
    """A broker as a process. It keeps its port over restarts."""

    def __init__(
        self, log_dir: Path, overrides: Mapping[str, str] | None = None, *, port: int = 0, listener: str = "PLAINTEXT"
    ) -> None:
        """listener: the name of the listener on `port`, if `overrides` have no listeners."""
        self.log_dir = log_dir
        self._listener = listener
        self.port = port or free_ports(1)[0]
        self.process: ForkedProcess | None = None
        self._lives = 0
        self.overrides = dict(overrides or {})
        """Its settings: what is changed here counts from the next start on."""

    @property
    def _out(self) -> Path:
        return self.log_dir.parent / f"{self.log_dir.name}.out"

    @property
    def bootstrap(self) -> str:
        """The bootstrap address."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> BrokerProcess:
        """Start it and wait until it is ready."""
        return self.launch().wait_ready()

    def launch(self) -> BrokerProcess:
        """Start it without waiting."""
        base = settings(self.log_dir) | {"listeners": f"{self._listener}://127.0.0.1:{self.port}"} | self.overrides
        arguments = [part for name, value in base.items() for part in ("--set", f"{name}={value}")]
        log = self._out
        self._lives = log.read_text().count(READY) if log.exists() else 0
        self.process = ForkedProcess(run_module, "broker.__main__", *arguments, out=log)
        return self

    def wait_ready(self) -> BrokerProcess:
        """Wait until clients are served."""
        assert self.process is not None
        process = self.process

        def is_ready() -> bool:
            code, text = process.poll(), self.log_text()
            assert code is None, f"the broker ended with {code}:\n{text}"
            return text.count(READY) > self._lives

        until_blocking(is_ready, f"the broker of {self._out} is ready")
        self.port = int(re.findall(r"listening +\w+://127\.0\.0\.1:(\d+)", self.log_text())[-1])
        return self

    def stop(self) -> int:
        """SIGTERM, and wait. Returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL, and wait. Returns the exit code."""
        return self._end(signal.SIGKILL)

    def _end(self, number: int) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def log_text(self) -> str:
        """Its output since the first start."""
        return self._out.read_text()

    def __enter__(self) -> BrokerProcess:
        return self if self.process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


@contextlib.contextmanager
def broker_process(log_dir: Path, **overrides: str) -> Iterator[BrokerProcess]:
    """Run a broker process; it is killed at the end if it still runs."""
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    with BrokerProcess(log_dir, named) as process:
        yield process

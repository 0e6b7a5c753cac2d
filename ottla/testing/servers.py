"""The brokers of one pytest session: each is started when the first test asks for it, and shared by those after it."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from ottla.testing.broker_log import BrokerLog
from ottla.testing.broker_thread import BrokerThread
from ottla.testing.cluster_thread import ClusterThread
from ottla.testing.own_chroot import CONNECT

S = TypeVar("S", bound=ClusterThread)

ISOLATIONS: Final = ("topics", "cluster")
MAX_NAME: Final = 80
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class ServerOptions:
    """What the ini file and the command line set for all brokers of a session."""

    settings: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    """The Kafka release whose API versions the brokers have; None for those of Ottla."""
    brokers: int = 3
    isolation: str = "topics"
    keep_data: Path | None = None
    """Where the data of a failed test is copied to; None if it is not."""
    log_level: int = logging.INFO
    requests: int = 30
    """How many of the last requests a report has."""


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster that tests ask for: those that ask for the same one share it."""

    brokers: int
    settings: tuple[tuple[str, str], ...] = ()


class Servers:
    """The brokers and clusters of a session."""

    def __init__(self, options: ServerOptions, scratch: Path | None = None) -> None:
        """scratch: the folder for the data if it may be copied after a test has failed."""
        self.options = options
        self.log = BrokerLog(options.log_level)
        self._scratch = scratch
        self._broker: BrokerThread | None = None
        self._clusters: dict[ClusterSpec, ClusterThread] = {}
        self._used: set[ClusterThread] = set()
        self._numbers = itertools.count(1)
        self._run = secrets.token_hex(3)

    def broker(self) -> BrokerThread:
        """Return the broker that all tests share."""
        if self._broker is None:
            settings = dict(self.options.settings)
            broker = BrokerThread(settings, directory=self._directory("broker", settings), version=self.options.version)
            self._broker = self._started(broker)
        return self._broker

    @property
    def running_broker(self) -> BrokerThread | None:
        """The broker that all tests share; None if none has asked for it."""
        return self._broker

    def cluster(self, spec: ClusterSpec) -> ClusterThread:
        """Return a cluster with as many brokers and these settings. Raises ValueError."""
        if spec not in self._clusters:
            settings = dict(self.options.settings) | dict(spec.settings)
            directory = self._directory(f"cluster-{len(self._clusters) + 1}", settings)
            cluster = ClusterThread(spec.brokers, settings, directory=directory, version=self.options.version)
            self._clusters[spec] = self._started(cluster)
        return self._clusters[spec]

    def _directory(self, name: str, settings: Mapping[str, str]) -> Path | None:
        """Return a directory whose copy has the registry; None with ZooKeeper: a cluster has its own chroot then."""
        return None if self._scratch is None or settings.get(CONNECT) else self._scratch / name

    def _started(self, server: S) -> S:
        if self._all():
            return server.start()
        self.log.attach()
        try:
            return server.start()
        except BaseException:
            self.log.detach()
            raise

    def new_name(self, test: str) -> str:
        """Return a name for a topic or group that no other test of any process has; it begins with the test's."""
        short = _NOT_IN_NAMES.sub("-", test).strip("-.")[:MAX_NAME]
        return f"{short}-{self._run}-{next(self._numbers)}"

    # -- a test ------------------------------------------------------------------------------------------------------

    def begin(self, server: ClusterThread, isolation: str) -> None:
        """Prepare a server for a test: with the isolation `cluster`, it is empty if another test has used it."""
        if isolation == "cluster" and server in self._used:
            server.reset()
        self._used.add(server)

    def report(self, server: ClusterThread, test: str) -> list[tuple[str, str]]:
        """Return the sections of the report of a failed test that has used a server."""
        requests = [f"{_clock(one.received_ms)} {one}" for one in server.requests.seen()]
        last = requests[-self.options.requests :] if self.options.requests else []
        sections = [("ottla: last requests", "\n".join(last)), ("ottla: log of the brokers", self.log.text())]
        if self.options.keep_data is not None:
            sections.append(("ottla: data of the brokers", self._keep(server, test)))
        return [(title, text) for title, text in sections if text]

    def _keep(self, server: ClusterThread, test: str) -> str:
        """Copy the data of a server, and return what to say about it."""
        assert self.options.keep_data is not None
        target = self.options.keep_data / self.new_name(test)

        async def copy() -> None:  # in the brokers' thread: hardly anything is written meanwhile
            shutil.copytree(server.directory, target, ignore=_BEING_DELETED, copy_function=_copy)

        try:
            server.call(copy)
        except (OSError, shutil.Error, RuntimeError) as error:
            return f"could not be copied to {target}: {error}"
        return f"{target}\nA broker that opens a copy of it: ottla broker --set log.dirs=DIRECTORY"

    def forget_lines(self) -> None:
        """Begin the log and the requests of a new test."""
        self.log.clear()
        for server in self._all():
            server.requests.clear()

    def _all(self) -> list[ClusterThread]:
        return [*self._clusters.values(), *([] if self._broker is None else [self._broker])]

    def close(self) -> None:
        """Stop all brokers. Raises the error that ended a broker by itself."""
        servers = self._all()
        self._clusters.clear()
        self._broker = None
        try:
            errors = [error for server in servers if (error := _stop(server)) is not None]
        finally:
            self.log.detach()
        if errors:
            raise errors[0]


_BEING_DELETED: Final = shutil.ignore_patterns("*-delete", ".lock")


def _clock(time_ms: int) -> str:
    return f"{time.strftime('%H:%M:%S', time.localtime(time_ms // 1000))}.{time_ms % 1000:03d}"


def _copy(source: str, target: str) -> None:
    """Copy a file, unless it has been deleted meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


def _stop(server: ClusterThread) -> BaseException | None:
    try:
        server.stop()
    except BaseException as error:
        return error
    return None

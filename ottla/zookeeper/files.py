"""The files of a ZooKeeper server: its jars, its configuration, its logging.

The jars are those of pyspark (found without importing it), or those in the folder named by OTTLA_ZOOKEEPER_JARS: a
container image needs only eight files of pyspark's four hundred megabytes.

    folder/data                ZooKeeper's data; data/myid is the server's number
    folder/zoo.cfg             rewritten at each start, because ports and hosts may change
    folder/log4j2.properties
    folder/server.log          the server's output, unless it goes to the output of the parent process
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.command_line.failure import CommandError
from ottla.jvm.installed_pyspark import find_pyspark
from ottla.jvm.java import find_java

JARS_VARIABLE = "OTTLA_ZOOKEEPER_JARS"
JARS = (
    *("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java"),
    *("log4j-slf4j2-impl", "log4j-api", "log4j-core"),
)
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
EVERY_INTERFACE = ("0.0.0.0", "::")

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


class Peer(NamedTuple):
    """The address of one server of an ensemble, for the other servers."""

    host: str
    quorum_port: int
    election_port: int

    @classmethod
    def parse(cls, text: str) -> Peer:
        """Parse ZooKeeper's notation, such as "zookeeper-1:2888:3888". Raises CommandError."""
        match = re.fullmatch(
            r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:;,\[\]]+):(?P<quorum>\d{1,5}):(?P<election>\d{1,5})", text
        )
        if match is None or not all(0 < int(match[name]) < 65536 for name in ("quorum", "election")):
            raise CommandError(f"{text!r} is not a ZooKeeper server such as zookeeper-1:2888:3888")
        return cls(match["host"], int(match["quorum"]), int(match["election"]))

    def __str__(self) -> str:
        """Return the notation of ZooKeeper's configuration."""
        return f"{self.host}:{self.quorum_port}:{self.election_port}"


def write_configuration(
    folder: Path, number: int, peers: Sequence[Peer], *, listen: str, port: int, sync: bool = True
) -> None:
    """Write the configuration of server `number` (from 1) of an ensemble; with one peer, of a standalone server.

    Without `sync`, the server does not sync its transaction log to the disk.
    """
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    lines = [
        f"tickTime={TICK_MS}",
        f"minSessionTimeout={MIN_SESSION_MS}",
        f"maxSessionTimeout={MAX_SESSION_MS}",
        f"dataDir={data}",
        f"clientPort={port}",
        f"clientPortAddress={listen}",
        "maxClientCnxns=0",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr,mntr,ruok",
        f"forceSync={'yes' if sync else 'no'}",
        f"initLimit={10_000 // TICK_MS}",
        f"syncLimit={5_000 // TICK_MS}",
        "autopurge.snapRetainCount=3",  # otherwise ZooKeeper never deletes snapshots and logs
        "autopurge.purgeInterval=24",
    ]
    if len(peers) > 1:
        lines += [f"server.{index}={peer}" for index, peer in enumerate(peers, 1)]
        # A host's own name often resolves to its loopback address, which the other servers cannot reach.
        lines.append(f"quorumListenOnAllIPs={'true' if listen in EVERY_INTERFACE else 'false'}")
    (data / "myid").write_text(f"{number}\n")
    (folder / "zoo.cfg").write_text("\n".join([*lines, ""]))
    (folder / "log4j2.properties").write_text(_LOGGING)


def server_command(folder: Path) -> list[str]:
    """Return the command that runs a server on the files of its folder.

    Raises CommandError, which says what to install, if Java or a jar is missing.
    """
    return [
        str(find_java()),
        *JAVA_OPTIONS,
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "-cp",
        ":".join(str(jar) for jar in find_jars()),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(folder / "zoo.cfg"),
    ]


def find_jars() -> list[Path]:
    """Return the jars of a server. Raises CommandError, which says what to install or which jar is missing."""
    folder = _jars_folder()
    found = []
    for name in JARS:
        jars = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not jars:
            raise CommandError(f"{folder} has no {name}: a ZooKeeper server needs it")
        found.append(jars[-1])
    return found


def _jars_folder() -> Path:
    if named := os.environ.get(JARS_VARIABLE):
        return Path(named)
    return find_pyspark("a ZooKeeper server", "zookeeper") / "jars"

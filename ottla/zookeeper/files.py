"""What a ZooKeeper server runs on: the jars, its configuration, its logging.

The jars are those that pyspark brings (found without importing it), or lie in the folder that OTTLA_ZOOKEEPER_JARS
names: an image needs eight files of pyspark's four hundred megabytes.

    folder/data                what ZooKeeper keeps; data/myid is the server's number
    folder/zoo.cfg             written anew at each start: ports and hosts may be others
    folder/log4j2.properties
    folder/server.log          where it does not write to our own output
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ottla.command_line.failure import CommandError
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
    """Where one server of an ensemble is reached by the others."""

    host: str
    quorum_port: int
    election_port: int

    @classmethod
    def parse(cls, text: str) -> Peer:
        """The peer that "zookeeper-1:2888:3888" names, ZooKeeper's own notation. Raises CommandError."""
        match = re.fullmatch(
            r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:;,\[\]]+):(?P<quorum>\d{1,5}):(?P<election>\d{1,5})", text
        )
        if match is None or not all(0 < int(match[name]) < 65536 for name in ("quorum", "election")):
            raise CommandError(f"{text!r} is no ZooKeeper server such as zookeeper-1:2888:3888")
        return cls(match["host"], int(match["quorum"]), int(match["election"]))

    def __str__(self) -> str:
        """As ZooKeeper's configuration has it."""
        return f"{self.host}:{self.quorum_port}:{self.election_port}"


def write_configuration(
    folder: Path, number: int, peers: Sequence[Peer], *, listen: str, port: int, sync: bool = True
) -> None:
    """Write what server `number` (from 1) of the ensemble reads at its start; one peer makes no ensemble.

    Without `sync` a write does not wait for the disk.
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
        "autopurge.snapRetainCount=3",  # else snapshots and logs are kept for ever
        "autopurge.purgeInterval=24",
    ]
    if len(peers) > 1:
        lines += [f"server.{index}={peer}" for index, peer in enumerate(peers, 1)]
        # A host's own name is often that of its loopback address, where the others cannot reach it.
        lines.append(f"quorumListenOnAllIPs={'true' if listen in EVERY_INTERFACE else 'false'}")
    (data / "myid").write_text(f"{number}\n")
    (folder / "zoo.cfg").write_text("\n".join([*lines, ""]))
    (folder / "log4j2.properties").write_text(_LOGGING)


def server_command(folder: Path) -> list[str]:
    """The command that runs a server on the files of its folder. Raises CommandError naming what to install."""
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
    """The jars of a server. Raises CommandError naming what to install, or what a folder lacks."""
    folder = _jars_folder()
    found = []
    for name in JARS:
        jars = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not jars:
            raise CommandError(f"{folder} has no {name}: it cannot give us a ZooKeeper server")
        found.append(jars[-1])
    return found


def _jars_folder() -> Path:
    if named := os.environ.get(JARS_VARIABLE):
        return Path(named)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise CommandError("a ZooKeeper server comes with pyspark, which is not there: pip install 'ottla[zookeeper]'")
    return Path(spec.origin).parent / "jars"

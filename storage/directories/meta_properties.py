"""`meta.properties`: the broker id and the cluster id of a log directory.

    #
    #Sat Nov 21 04:32:20 UTC 2026
    broker.id=0
    version=0
    cluster.id=o49C908cRjWCOSxMqwtNNw

A Java properties file: comments and `key=value` lines. Version 0 is the version of ZooKeeper mode.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from os import PathLike

from storage.errors import CorruptFileError, InconsistentBrokerIdError, InconsistentClusterIdError
from storage.file_system import FileSystem

META_PROPERTIES = "meta.properties"


class MetaProperties:
    """The content of the file. `broker_id` and `cluster_id` are None if the file does not have them."""

    __slots__ = ("broker_id", "cluster_id")

    def __init__(self, broker_id: int | None, cluster_id: str | None) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetaProperties):
            return NotImplemented
        return (self.broker_id, self.cluster_id) == (other.broker_id, other.cluster_id)

    def __repr__(self) -> str:
        return f"MetaProperties(broker_id={self.broker_id}, cluster_id={self.cluster_id!r})"


def read_meta_properties(fs: FileSystem, directory: str) -> MetaProperties | None:
    """Return the content of the directory's file; None if there is no file. Raises CorruptFileError."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        text = fs.read_file(path).decode("latin-1")
    except FileNotFoundError:
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            fields[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    version = fields.get("version")
    if version != "0":
        raise CorruptFileError(
            path, f"unsupported version {version!r}: this is not a log directory of a ZooKeeper-mode broker"
        )
    broker_id = fields.get("broker.id")
    try:
        number = None if broker_id is None else int(broker_id)
    except ValueError:
        raise CorruptFileError(path, f"broker.id {broker_id!r} is not a number") from None
    return MetaProperties(number, fields.get("cluster.id"))


def write_meta_properties(fs: FileSystem, directory: str, properties: MetaProperties, now_ms: int) -> None:
    """Write the file atomically and sync it. Raises LogDirIOError."""
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    lines = ["#", f"#{date}"]
    if properties.broker_id is not None:
        lines.append(f"broker.id={properties.broker_id}")
    lines.append("version=0")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    fs.replace_file(f"{directory}/{META_PROPERTIES}", ("\n".join(lines) + "\n").encode("latin-1"), sync=True)


def agreed(
    stored: Iterable[tuple[str | PathLike[str], MetaProperties | None]], broker_id: int | None
) -> MetaProperties:
    """Merge the files of several directories, given as (path, content or None); a field is None if no file has it.

    Raises InconsistentBrokerIdError if a file has another broker id than `broker_id` (None: not known yet),
    InconsistentClusterIdError if files have different cluster ids.
    """
    merged = MetaProperties(broker_id, None)
    for path, properties in stored:
        if properties is None:
            continue
        if properties.broker_id is not None:
            if merged.broker_id is not None and merged.broker_id != properties.broker_id:
                raise InconsistentBrokerIdError(
                    f"{path} belongs to broker {properties.broker_id}, this is broker {merged.broker_id}: "
                    f"set broker.id to {properties.broker_id}, or remove the other broker's files"
                )
            merged.broker_id = properties.broker_id
        if properties.cluster_id is not None:
            if merged.cluster_id is not None and merged.cluster_id != properties.cluster_id:
                raise InconsistentClusterIdError(
                    f"{path} belongs to cluster {properties.cluster_id}, "
                    f"another log directory to cluster {merged.cluster_id}"
                )
            merged.cluster_id = properties.cluster_id
    return merged

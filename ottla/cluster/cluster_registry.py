"""The registry of a local cluster: `ottla registry`, ZooKeeper servers of its own, or a ZooKeeper that runs already.

A data directory is for one of the three kinds: the tree of the topics is in the registry.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeAlias

from ottla.cluster import external_zookeeper, local_registry
from ottla.cluster.external_zookeeper import ExternalZooKeeper
from ottla.cluster.leftovers import CONNECT
from ottla.cluster.local_registry import LocalRegistry
from ottla.cluster.registry_servers import RegistryServers
from ottla.command_line.failure import CommandError
from ottla.zookeeper.server import ZooKeeperEnsemble

ClusterRegistry: TypeAlias = RegistryServers | ExternalZooKeeper

_REGISTRY = local_registry.KIND
_ZOOKEEPER = external_zookeeper.KIND
_EXTERNAL = CONNECT
"""Names in the data directory: two folders, and a file with the address of an external ZooKeeper."""


class Choice(NamedTuple):
    """A registry, its kind, and the names of its processes."""

    registry: ClusterRegistry
    kind: str
    names: list[str]


def choose_registry(
    data_dir: Path, *, is_temporary: bool, zookeeper: str | None, zookeeper_nodes: int | None, port: int
) -> Choice:
    """Return the registry, not started. See `LocalCluster`. Raises CommandError for data of another kind."""
    if zookeeper is not None and zookeeper_nodes is not None:
        raise CommandError("--zookeeper and --zookeeper-nodes cannot be used together")
    if zookeeper is not None:
        _require_kind(data_dir, _EXTERNAL)
        return Choice(ExternalZooKeeper(zookeeper, is_temporary=is_temporary), _ZOOKEEPER, [])
    if zookeeper_nodes is not None:
        _require_kind(data_dir, _ZOOKEEPER)
        ensemble = ZooKeeperEnsemble(data_dir / _ZOOKEEPER, nodes=zookeeper_nodes, port=port)
        return Choice(ensemble, _ZOOKEEPER, [f"{_ZOOKEEPER}-{n}" for n in range(1, zookeeper_nodes + 1)])
    _require_kind(data_dir, _REGISTRY)
    return Choice(LocalRegistry(data_dir / _REGISTRY, port=port), _REGISTRY, [_REGISTRY])


def note_external(data_dir: Path, registry: ClusterRegistry) -> None:
    """Write the address of an external ZooKeeper into the data directory, so that later starts do not forget it."""
    if isinstance(registry, ExternalZooKeeper):
        (data_dir / _EXTERNAL).write_text(f"{registry.connect}\n")


def _require_kind(data_dir: Path, kind: str) -> None:
    options = {_REGISTRY: "without --zookeeper-nodes and --zookeeper", _ZOOKEEPER: "with --zookeeper-nodes"}
    if (data_dir / _EXTERNAL).exists():
        options[_EXTERNAL] = f"with --zookeeper {(data_dir / _EXTERNAL).read_text().strip()}"
    for other, option in options.items():
        if other != kind and (data_dir / other).exists():
            raise CommandError(f"{data_dir} has a cluster that was started {option}: start it so again")

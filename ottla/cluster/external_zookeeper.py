"""A ZooKeeper that runs already, as the registry of a local cluster: `ottla cluster --zookeeper`.

The data of the brokers and their tree in ZooKeeper belong together:

* A cluster with temporary data gets a chroot of its own below the given path. It is deleted with the data, or by a
  later start if the command is killed (see `leftovers`).
* A cluster with a data directory uses the given path and keeps it. If the path has topics and the data directory has no
  data of a broker, the start is refused: the topics' records would be missing.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cluster.leftovers import PREFIX
from ottla.command_line.failure import CommandError
from registry.errors import NoNodeError, RegistryError
from registry.subtree import delete_subtree
from registry.zookeeper.address import ZooKeeperAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.cluster.registry_servers import ServerProcess
    from registry.interface import Registry

KIND = "zookeeper"


class ExternalZooKeeper:
    """The servers of an ensemble that others start and stop, and the path of a cluster on them."""

    servers: Sequence[ServerProcess] = ()
    is_running = True

    def __init__(self, connect: str, *, is_temporary: bool) -> None:
        """connect: as in `zookeeper.connect`. Raises BadArgumentsError, which names the part and the rule."""
        self._given = ZooKeeperAddress.parse(connect)
        self._own_chroot = f"/{PREFIX}{secrets.token_hex(4)}" if is_temporary else ""
        self._is_prepared = False

    @property
    def hosts(self) -> str:
        """The addresses of the servers, without a chroot."""
        return self._given.hosts

    @property
    def connect(self) -> str:
        """The value for `zookeeper.connect`."""
        return f"{self._given}{self._own_chroot}"

    async def start(self) -> None:
        """Do nothing: the servers run."""

    def close(self) -> None:
        """Do nothing: the servers continue."""

    async def prepare(self, config: Path, log_dirs: Sequence[Path]) -> None:
        """Check that the servers can be used for brokers with these log directories.

        config: a properties file with the settings of security towards ZooKeeper. Raises CommandError.
        """
        # kazoo takes 25 ms, and no other kind of cluster needs it.
        from ottla.command_line.registry_session import opened

        try:
            async with opened(self.connect, make_chroot=bool(self._own_chroot), config=config) as registry:
                self._is_prepared = True
                topics = await _children(registry, "/brokers/topics")
        except RegistryError as error:
            raise CommandError(f"--zookeeper {self._given}: {error}") from None
        if topics and not any((folder / "meta.properties").exists() for folder in log_dirs):
            raise CommandError(
                f"--zookeeper {self._given} has a cluster with {len(topics)} topics, and {log_dirs[0].parent} has no"
                " data of it: give --data-dir of that cluster, or another chroot, such as"
                f" {self._given.hosts}/test"
            )

    async def delete_own_chroot(self, config: Path) -> str | None:
        """Delete the chroot of a cluster with temporary data. Return why that failed, or None."""
        if not self._own_chroot or not self._is_prepared:
            return None
        return await delete_chroot(self.connect, config)


async def delete_chroot(connect: str, config: Path) -> str | None:
    """Delete the last part of an address's chroot, with all znodes in it. Return why that failed, or None."""
    from ottla.command_line.registry_session import opened  # kazoo takes 25 ms

    given, _, name = connect.rpartition("/")
    try:
        async with opened(given, config=config) as registry:
            await delete_subtree(registry, f"/{name}")
    except (RegistryError, CommandError) as error:
        return f"{connect} is not deleted: {error}"
    return None


async def _children(registry: Registry, path: str) -> list[str]:
    try:
        return await registry.children(path)
    except NoNodeError:
        return []

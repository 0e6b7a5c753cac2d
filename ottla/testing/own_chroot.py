"""The chroot of a test cluster on ZooKeeper.

The data of a cluster and its znodes belong together. So a cluster with temporary data has a chroot of its own, below
the path that `zookeeper.connect` names, and it is deleted with the data. Clusters can share a ZooKeeper, and each can
be reset.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Self

from broker.settings.config import BrokerConfig
from broker.settings.zookeeper import load_zookeeper_security
from registry.errors import RegistryError
from registry.subtree import delete_subtree
from registry.zookeeper.address import ZooKeeperAddress

logger = logging.getLogger(__name__)

CONNECT = "zookeeper.connect"


class OwnChroot:
    """A chroot that no other cluster has."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """settings: of a broker, with `zookeeper.connect`. Raises BadArgumentsError for an invalid one."""
        self._given = ZooKeeperAddress.parse(settings[CONNECT])
        self._settings = settings
        self._path = f"/ottla-test-{secrets.token_hex(4)}"

    @classmethod
    def of(cls, settings: Mapping[int, Mapping[str, str]]) -> Self | None:
        """Return a chroot for brokers with these settings by id; None if they do not use ZooKeeper."""
        for one in settings.values():
            if one.get(CONNECT, "").strip():
                return cls(one)
        return None

    @property
    def settings(self) -> dict[str, str]:
        """What replaces the settings of each broker."""
        return {CONNECT: f"{self._given}{self._path}"}

    async def delete(self) -> None:
        """Delete all znodes of the cluster, whose brokers do not run. Raises RegistryError."""
        from registry.zookeeper.registry import ZooKeeperRegistry  # 12 ms that other clusters do not need

        config = BrokerConfig.load(overrides={"log.dirs": "/", **self._settings})
        registry = ZooKeeperRegistry(
            self._given,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            make_chroot=False,
            security=load_zookeeper_security(config),
        )
        try:
            await registry.start()
            await delete_subtree(registry, self._path)
        finally:
            await registry.close()

    async def discard(self) -> None:
        """Delete them at the end of the cluster, if ZooKeeper still answers."""
        try:
            await self.delete()
        except RegistryError as error:
            logger.warning("%s is not deleted: %s", self.settings[CONNECT], error)

"""Election of the controller: which broker owns `/controller`, and how a broker wins.

The winner creates `/controller` and increments `/controller_epoch` in one transaction. The epoch is read first: if the
transaction succeeds, no other broker has incremented it in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Create, Registry, Set, Stat
from registry.znodes.brokers import BrokerZnode
from registry.znodes.controller import ControllerEpochZnode, ControllerZnode

logger = logging.getLogger(__name__)


class Candidacy:
    """One broker as a candidate in elections."""

    def __init__(self, broker_id: int, registry: Registry, now_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._registry = registry
        self._now_ms = now_ms
        self._highest_epoch = 0

    def watched_paths(self) -> list[str]:
        """Return the znodes whose changes may make this broker, or another one, the controller."""
        return [ControllerZnode.path(), ControllerEpochZnode.path(), BrokerZnode.path(self._broker_id)]

    async def epoch(self) -> tuple[int, int]:
        """Return the controller epoch and the version of its znode. Raises ZnodeFormatError."""
        path = ControllerEpochZnode.path()
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            await self._registry.create(path, ControllerEpochZnode(epoch=self._highest_epoch).encode())
            data, stat = await self._registry.get(path)
        epoch = ControllerEpochZnode.decode(data, path).epoch
        self._highest_epoch = max(self._highest_epoch, epoch)
        return epoch, stat.version

    async def holder(self) -> Stat | None:
        """Return the stat of `/controller`, also if its content is invalid; None if there is no controller."""
        path = ControllerZnode.path()
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            return None
        try:
            ControllerZnode.decode(data, path)
        except ZnodeFormatError as error:
            logger.error("there is a controller, but its znode cannot be read: %s", error)
        return stat

    async def may_stand(self) -> bool:
        """Return whether this session has registered this broker.

        A controller that is not registered would count itself as dead and elect other leaders for its partitions.
        """
        stat = await self._registry.exists(BrokerZnode.path(self._broker_id))
        return stat is not None and stat.ephemeral_owner == self._registry.session_id

    async def win(self, epoch: int, version: int) -> None:
        """Become the controller with the next epoch. Raises NodeExistsError, BadVersionError."""
        znode = ControllerZnode(broker=self._broker_id, timestamp_ms=self._now_ms())
        await self._registry.multi(
            [
                Create(ControllerZnode.path(), znode.encode(), ephemeral=True),
                Set(ControllerEpochZnode.path(), ControllerEpochZnode(epoch=epoch + 1).encode(), version),
            ]
        )
        self._highest_epoch = max(self._highest_epoch, epoch + 1)

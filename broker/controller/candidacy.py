"""Standing for controller: who holds `/controller`, and how it is won.

The winner makes `/controller` and raises `/controller_epoch` in one transaction. The epoch is read first: where
`/controller` is ours afterwards, nobody can have raised it in between.
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
    """One broker's part in elections."""

    def __init__(self, broker_id: int, registry: Registry, now_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._registry = registry
        self._now_ms = now_ms
        self._highest_epoch = 0

    def watched_paths(self) -> list[str]:
        """Where something changes that may make us, or somebody else, controller."""
        return [ControllerZnode.path(), ControllerEpochZnode.path(), BrokerZnode.path(self._broker_id)]

    async def epoch(self) -> tuple[int, int]:
        """The controller epoch, and the version of its znode. Raises ZnodeFormatError."""
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
        """The stat of `/controller`: whose it is, whatever it says."""
        path = ControllerZnode.path()
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            return None
        try:
            ControllerZnode.decode(data, path)
        except ZnodeFormatError as error:
            logger.error("there is a controller, but nobody can tell which: %s", error)
        return stat

    async def may_stand(self) -> bool:
        """Whether this session has registered us: who is no live broker would have others lead what it leads."""
        stat = await self._registry.exists(BrokerZnode.path(self._broker_id))
        return stat is not None and stat.ephemeral_owner == self._registry.session_id

    async def win(self, epoch: int, version: int) -> None:
        """Become the controller of the epoch after this one. Raises NodeExistsError, BadVersionError."""
        znode = ControllerZnode(broker=self._broker_id, timestamp_ms=self._now_ms())
        await self._registry.multi(
            [
                Create(ControllerZnode.path(), znode.encode(), ephemeral=True),
                Set(ControllerEpochZnode.path(), ControllerEpochZnode(epoch=epoch + 1).encode(), version),
            ]
        )
        self._highest_epoch = max(self._highest_epoch, epoch + 1)

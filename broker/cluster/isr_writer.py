"""ISR changes that leaders write themselves, for inter.broker.protocol.version below 2.7.

The state znode is written on the condition that its version has not changed. The controller learns of the change from a
znode below /isr_change_notification, which names many partitions. The notification is written when no ISR has changed
for five seconds, or a minute after the previous one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from protocol.error_codes import ErrorCode
from registry.errors import BadVersionError, NoNodeError, RegistryError
from registry.interface import Registry
from registry.znodes.notifications import IsrChangeNotificationZnode
from registry.znodes.topics import PartitionStateZnode
from replication.alter_partition import IsrChange, IsrChangeRefusedError, LeaderAndIsr

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S = 2.5
LINGER_S = 5.0
MAX_DELAY_S = 60.0


class IsrWriter:
    """An `AlterPartition` that writes to the registry."""

    def __init__(self, registry: Registry, *, now_s: Callable[[], float]) -> None:
        self._registry = registry
        self._now_s = now_s
        self._changed: set[tuple[str, int]] = set()
        self._last_change_s = now_s()
        self._last_notification_s = now_s()

    async def submit(self, change: IsrChange) -> LeaderAndIsr:
        """See `AlterPartition`."""
        proposed = change.proposed
        path = PartitionStateZnode.path(change.topic, change.partition)
        state = PartitionStateZnode(
            leader=proposed.leader,
            leader_epoch=proposed.leader_epoch,
            isr=list(proposed.isr),
            controller_epoch=change.controller_epoch,
        )
        try:
            stat = await self._registry.set(path, state.encode(), proposed.partition_epoch)
            version = stat.version
        except BadVersionError:
            version = await self._version_if_written(path, state)
        except NoNodeError:
            raise IsrChangeRefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
        except RegistryError as error:
            raise IsrChangeRefusedError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        self._changed.add((change.topic, change.partition))
        self._last_change_s = self._now_s()
        return proposed._replace(partition_epoch=version)

    async def _version_if_written(self, path: str, state: PartitionStateZnode) -> int:
        """Return the version if `state` was written and only the answer was lost; else raise IsrChangeRefusedError."""
        try:
            data, stat = await self._registry.get(path)
            if PartitionStateZnode.decode(data, path) == state:
                return stat.version
        except RegistryError as error:
            raise IsrChangeRefusedError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        raise IsrChangeRefusedError(ErrorCode.INVALID_UPDATE_VERSION)

    async def run(self) -> None:
        """Notify the controller at intervals, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                await self._notify()
            except RegistryError as error:
                logger.warning("the controller cannot be notified of ISR changes yet: %s", error)

    async def _notify(self) -> None:
        now_s = self._now_s()
        is_quiet = self._last_change_s + LINGER_S < now_s
        if not self._changed or not (is_quiet or self._last_notification_s + MAX_DELAY_S < now_s):
            return
        changed, self._changed = self._changed, set()
        znode = IsrChangeNotificationZnode(partitions=sorted(changed))
        try:
            await self._registry.create(IsrChangeNotificationZnode.path(), znode.encode(), sequence=True)
        except RegistryError:
            self._changed |= changed
            raise
        self._last_notification_s = now_s

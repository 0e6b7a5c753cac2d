"""Notifications of ISR changes that leaders below inter.broker.protocol.version 2.7 have written themselves.

Such a leader writes the state with its version as the condition. From time to time it writes a list of the changed
partitions under /isr_change_notification. The controller reads these states, publishes them, and removes the lists.
"""

from __future__ import annotations

import logging

from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.partition_states import PartitionStates
from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Delete, Registry
from registry.znodes.notifications import IsrChangeNotificationsZnode, IsrChangeNotificationZnode

logger = logging.getLogger(__name__)


class IsrNotifications:
    """Reads the notifications."""

    def __init__(self, registry: Registry, context: ControllerContext, states: PartitionStates) -> None:
        self._registry = registry
        self._context = context
        self._states = states

    async def take(self) -> None:
        """Read the states of the named partitions, publish them, and remove the notifications."""
        parent = IsrChangeNotificationsZnode.path()
        try:
            names = await self._registry.children(parent)
        except NoNodeError:
            return
        keys: dict[TopicPartition, None] = {}
        for name in sorted(names):
            path = f"{parent}/{name}"
            try:
                data, _ = await self._registry.get(path)
                keys |= dict.fromkeys(IsrChangeNotificationZnode.decode(data, path).partitions)
            except NoNodeError:
                continue
            except ZnodeFormatError as error:
                logger.error("an invalid notification is removed: %s", error)
        known = [key for key in keys if self._context.partition_exists(key)]
        await self._states.read(known)
        self._states.publish(known)
        for name in sorted(names):
            path = f"{parent}/{name}"
            if await self._registry.exists(path) is not None:
                await self._registry.multi([self._context.epoch_check(), Delete(path)])

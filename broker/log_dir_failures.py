"""Handle the failure of a log directory: notify the controller, or stop the broker.

The broker notifies the controller with a sequential znode under /log_dir_event_notification. The controller then sends
LeaderAndIsr for all partitions of the broker, and elects other leaders for those that the broker answers with
KAFKA_STORAGE_ERROR (KIP-112).

The embedded registry is in the first log directory. Without a registry the cluster cannot work, so the broker stops if
this directory fails, as it does if the last directory fails.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from client.wire.backoff import Backoff, Retries
from registry.errors import ConnectionLossError, RegistryFullError, SessionExpiredError
from registry.interface import Registry
from registry.znodes.notifications import LogDirEventNotificationZnode
from storage.directories.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class RegistryDirectoryFailedError(Exception):
    """The log directory that contains the embedded registry has failed."""


class LogDirFailures:
    """The failures that the controller does not know yet."""

    def __init__(self, broker_id: int, registry: Registry, registry_directory: Path | None, backoff: Backoff) -> None:
        """registry_directory: the log directory with the embedded registry; None if the broker has none."""
        self._broker_id = broker_id
        self._registry = registry
        self._registry_directory = registry_directory
        self._backoff = backoff
        self._failed: asyncio.Queue[LogDirectory | None] = asyncio.Queue()

    def add(self, directory: LogDirectory) -> None:
        """Add a directory that has failed."""
        self._failed.put_nowait(directory)

    def tell_controller(self) -> None:
        """Make the controller send LeaderAndIsr for all partitions of this broker."""
        self._failed.put_nowait(None)

    async def run(self) -> None:
        """Notify the controller of failures until cancelled. Raises RegistryDirectoryFailedError."""
        while True:
            directory = await self._failed.get()
            if directory is not None and directory.path == self._registry_directory:
                raise RegistryDirectoryFailedError(
                    f"the log directory with the broker's registry has failed: {directory.failure}"
                )
            await self._tell()

    async def _tell(self) -> None:
        """Notify the controller; retry after errors, because a repeated notification is harmless."""
        data = LogDirEventNotificationZnode(broker=self._broker_id).encode()
        retries = Retries(self._backoff)
        while True:
            try:
                await self._registry.create(LogDirEventNotificationZnode.path(), data, sequence=True, make_parents=True)
            except (ConnectionLossError, SessionExpiredError, RegistryFullError) as error:
                logger.warning("cannot notify the controller of a failed log directory yet: %s", error)
                await retries.wait()
            else:
                return

"""What a broker does about a log directory that has failed: it tells the controller, or stops.

The controller learns it by a sequential znode under /log_dir_event_notification, asks the broker about all its
partitions (LeaderAndIsr), and has others lead those that are answered KAFKA_STORAGE_ERROR (KIP-112).

The embedded registry lies in the first log directory. When that one fails nothing can be decided any more, so the
broker stops, as it does when the last directory fails.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from registry.errors import ConnectionLossError, RegistryFullError, SessionExpiredError
from registry.interface import Registry
from registry.znodes.notifications import LogDirEventNotificationZnode
from storage.directories.log_directory import LogDirectory

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S = 1.0


class RegistryDirectoryFailedError(Exception):
    """The log directory that holds the embedded registry has failed."""


class LogDirFailures:
    """The failures that the controller has not been told of."""

    def __init__(self, broker_id: int, registry: Registry, registry_directory: Path | None) -> None:
        """registry_directory: where the registry's file is; None where the registry is somewhere else."""
        self._broker_id = broker_id
        self._registry = registry
        self._registry_directory = registry_directory
        self._failed: asyncio.Queue[LogDirectory] = asyncio.Queue()

    def add(self, directory: LogDirectory) -> None:
        """A directory has failed."""
        self._failed.put_nowait(directory)

    async def run(self) -> None:
        """Tell of failures until cancelled. Raises RegistryDirectoryFailedError."""
        while True:
            directory = await self._failed.get()
            if directory.path == self._registry_directory:
                raise RegistryDirectoryFailedError(
                    f"the log directory with the broker's registry has failed: {directory.failure}"
                )
            await self._tell()

    async def _tell(self) -> None:
        """Telling twice does no harm."""
        data = LogDirEventNotificationZnode(broker=self._broker_id).encode()
        while True:
            try:
                await self._registry.create(LogDirEventNotificationZnode.path(), data, sequence=True, make_parents=True)
            except (ConnectionLossError, SessionExpiredError, RegistryFullError) as error:
                logger.warning("the controller cannot be told of a failed log directory yet: %s", error)
                await asyncio.sleep(RETRY_BACKOFF_S)
            else:
                return

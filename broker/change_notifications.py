"""Change notifications: sequential znodes with which brokers tell each other what to read again from the registry.

A broker writes a value first and the notification after it. Every broker reads what a notification names, and deletes
the notifications older than 15 minutes that it sees. Without a session a broker may miss notifications; then its owner
reads all values again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from client.wire.backoff import Backoff, Retries
from registry.errors import BadArgumentsError, NoAuthError, NoNodeError, RegistryError, ZnodeFormatError
from registry.interface import Registry

logger = logging.getLogger(__name__)

NOTIFICATION_LIFETIME_MS = 15 * 60 * 1000

Load = Callable[[bytes | None, str], Awaitable[None]]
"""Reads what the notification with this content at this path names. Raises ZnodeFormatError for invalid content."""


class ChangeNotifications:
    """Follows the notifications in one or several folders of the registry."""

    def __init__(
        self,
        registry: Registry,
        folders: Mapping[str, Load],
        subject: str,
        now_ms: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        """folders: what to do with the notifications of each folder. subject: what changes, for the log: `ACLs`."""
        self._registry = registry
        self._folders = folders
        self._subject = subject
        self._now_ms = now_ms
        self._retries = Retries(backoff)
        self._seen = dict.fromkeys(folders, "")
        """The last processed notification of each folder; names sort by sequence."""
        self._is_refused = False
        """Whether the log says that expired notifications cannot be deleted."""

    async def skip(self) -> None:
        """Treat the existing notifications as processed; after this, the caller reads all values."""
        for folder in self._folders:
            self._seen[folder] = max(await self._registry.children(folder), default="")

    async def run(self) -> None:
        """Process notifications until cancelled."""
        wake = asyncio.Event()
        watches = [self._registry.watch_children(folder, wake.set) for folder in self._folders]
        try:
            while True:
                wake.clear()
                try:
                    for folder, load in self._folders.items():
                        await self._process(folder, load)
                    self._retries.succeeded()
                except RegistryError as error:
                    logger.warning("changes of %s cannot be read: %s", self._subject, error)
                    await self._retries.wait()
                    wake.set()
                await wake.wait()
        finally:
            for watch in watches:
                watch.cancel()

    async def _process(self, folder: str, load: Load) -> None:
        expired = []
        for name in sorted(await self._registry.children(folder)):
            path = f"{folder}/{name}"
            try:
                data, stat = await self._registry.get(path)
                if self._now_ms() - stat.ctime > NOTIFICATION_LIFETIME_MS:
                    expired.append(path)
                if name <= self._seen[folder]:
                    continue
                await load(data, path)
            except NoNodeError:  # another broker has deleted it
                continue
            except NoAuthError as error:
                if name <= self._seen[folder]:
                    continue
                logger.error(
                    "a change of %s is ignored, the state before it stays in force: %s; give this broker the login to "
                    "ZooKeeper that the other brokers have, and restart it",
                    self._subject,
                    error,
                )
            except (ZnodeFormatError, BadArgumentsError) as error:  # BadArgumentsError: no znode can have this name
                logger.error("a change of %s is ignored, the state before it stays in force: %s", self._subject, error)
            self._seen[folder] = name  # only after success, so that a failed notification is retried
        await self._delete(expired)

    async def _delete(self, expired: list[str]) -> None:
        """Delete notifications, after all have been processed: one that may not be deleted does not stop the others."""
        for path in expired:
            try:
                await self._registry.delete(path)
            except NoNodeError:  # another broker has deleted it
                continue
            except NoAuthError as error:
                if not self._is_refused:
                    logger.warning("expired changes of %s cannot be deleted: %s", self._subject, error)
                self._is_refused = True

"""The watchers of groups. Usually there are none: a step then costs one check of an empty dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from broker.coordinator.consumer.group import AnyGroup

Watcher: TypeAlias = Callable[[AnyGroup, str | None], None]
"""Called with the group after a step, and before one with the id of a member whose session has expired."""


class GroupWatchers:
    """The watchers by group id."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[Watcher]] = {}

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def add(self, group_id: str, watcher: Watcher) -> None:
        """Call `watcher` from now on."""
        self._watchers.setdefault(group_id, set()).add(watcher)

    def remove(self, group_id: str, watcher: Watcher) -> None:
        """Do not call it any longer. Idempotent."""
        watchers = self._watchers.get(group_id, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(group_id, None)

    def tell(self, group: AnyGroup, expired: str | None = None) -> None:
        """Call the watchers of a group."""
        for watcher in tuple(self._watchers.get(group.group_id, ())):
            watcher(group, expired)

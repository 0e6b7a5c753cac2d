"""What happens in a group, as its coordinator sees it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from console.rest.models import Answer


class GroupEvent(Answer):
    """An event in a group.

    STATE and GENERATION (the epoch of a group of the new protocol) are about the group; PRESENT (it was a member before
    the group was watched), JOINED, REJOINING, SYNCED (it has its assignment, or has reached the epoch), EXPIRED (it
    sent no heartbeat in time) and LEFT about a member.
    """

    number: int
    """Ascending; the first event of a timeline has 1."""
    at_ms: int
    kind: str
    value: str
    """The state, the generation, or the member id."""
    client_id: str | None = None


class GroupTimeline(Protocol):
    """The events of one group since it is watched, the newest ones."""

    changed: asyncio.Event

    def after(self, number: int) -> list[GroupEvent]:
        """Return the events behind one."""

    def close(self) -> None:
        """Stop watching."""


class RebalanceInspection(Protocol):
    """The groups that a broker coordinates."""

    def coordinator(self, group_id: str) -> int | None:
        """Return the id of the broker that coordinates a group, which need not exist yet; None if none does now."""

    def watch(self, group_id: str) -> GroupTimeline:
        """Watch a group, which need not exist yet. Raises InspectionError if another broker coordinates it."""

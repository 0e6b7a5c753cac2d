"""The timeline of a group that this broker coordinates: what each step of the coordinator has changed.

Nothing is kept of groups that nobody watches. A timeline has the newest events only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from broker.coordinator.classic.group import Group
from broker.coordinator.consumer.group import ConsumerGroup
from broker.services import Services
from console.inspection.errors import BusyError, InspectionError, NotHereError
from console.inspection.rebalances import GroupEvent
from protocol.error_codes import ErrorCode

MAX_EVENTS: Final = 500


class _Member(NamedTuple):
    client_id: str
    is_joining: bool
    is_synced: bool


class _Seen(NamedTuple):
    """What is compared between two steps."""

    state: str
    generation: int
    members: dict[str, _Member]


class Timeline:
    """Implements `console.inspection.rebalances.GroupTimeline`."""

    def __init__(self, services: Services, group_id: str) -> None:
        self._services = services
        self._watchers = services.coordination.groups.watchers
        self._group_id = group_id
        self._events: deque[GroupEvent] = deque(maxlen=MAX_EVENTS)
        self._number = 0
        self._seen: _Seen | None = None
        self.changed = asyncio.Event()
        self._watchers.add(group_id, self._stepped)

    def close(self) -> None:
        """See `GroupTimeline`."""
        self._watchers.remove(self._group_id, self._stepped)

    def after(self, number: int) -> list[GroupEvent]:
        """See `GroupTimeline`."""
        return [one for one in self._events if one.number > number]

    def begin(self, group: Group | ConsumerGroup) -> None:
        """Show the group as it is now. Nobody knows when its members have joined."""
        self._seen = _seen(group)
        for member_id, member in self._seen.members.items():
            self._add("PRESENT", member_id, member.client_id)
        self._add("GENERATION", str(self._seen.generation))
        self._add("STATE", self._seen.state)

    def _stepped(self, group: Group | ConsumerGroup, expired: str | None) -> None:
        if expired is not None:
            client = self._seen.members.get(expired) if self._seen is not None else None
            self._add("EXPIRED", expired, None if client is None else client.client_id)
            return
        before, now = self._seen, _seen(group)
        self._seen = now
        known = {} if before is None else before.members
        for member_id, member in now.members.items():
            old = known.get(member_id)
            if old is None:
                self._add("JOINED", member_id, member.client_id)
            elif member.is_joining and not old.is_joining:
                self._add("REJOINING", member_id, member.client_id)
        for member_id in known.keys() - now.members.keys():
            self._add("LEFT", member_id, known[member_id].client_id)
        if before is None or now.generation != before.generation:
            self._add("GENERATION", str(now.generation))
        for member_id, member in now.members.items():
            old = known.get(member_id)
            if member.is_synced and old is not None and not old.is_synced:
                self._add("SYNCED", member_id, member.client_id)
        if before is None or now.state != before.state:
            self._add("STATE", now.state)

    def _add(self, kind: str, value: str, client_id: str | None = None) -> None:
        self._number += 1
        at_ms = self._services.now_ms()
        self._events.append(GroupEvent(number=self._number, at_ms=at_ms, kind=kind, value=value, client_id=client_id))
        self.changed.set()


def _seen(group: Group | ConsumerGroup) -> _Seen:
    if isinstance(group, ConsumerGroup):
        epoch = group.assignment_epoch
        members = {
            one: _Member(member.client_id, False, member.is_reconciled_to(epoch))
            for one, member in group.members.items()
        }
        return _Seen(group.state.value, group.epoch, members)
    is_stable = group.state.value == "Stable"
    return _Seen(
        group.state.value,
        group.generation,
        {
            one: _Member(member.client_id, member.joining is not None, is_stable and one not in group.pending_sync)
            for one, member in group.members.items()
        },
    )


class Rebalances:
    """Implements `console.inspection.rebalances.RebalanceInspection`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def coordinator(self, group_id: str) -> int | None:
        """See `RebalanceInspection`."""
        return self._services.coordination.group_log.coordinator_of(group_id)

    def watch(self, group_id: str) -> Timeline:
        """See `RebalanceInspection`."""
        found = self._services.coordination.groups.find(group_id)
        if found is ErrorCode.NOT_COORDINATOR:
            broker_id = self.coordinator(group_id)
            if broker_id is None:
                raise BusyError(f"The group {group_id} has no coordinator now.")
            raise NotHereError(f"Broker {broker_id} coordinates the group {group_id}: its console shows the timeline.")
        if found is ErrorCode.INVALID_GROUP_ID:
            raise InspectionError("A group has a name.")
        if isinstance(found, ErrorCode):
            raise BusyError(f"The coordinator of {group_id} is not ready: {found.name}.")
        timeline = Timeline(self._services, group_id)
        group = found.groups.get(group_id)
        if group is not None:
            timeline.begin(group)
        return timeline

"""The timeline of a group, from its coordinator, a broker of Ottla."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from console.inspection.rebalances import GroupEvent
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.event_stream import event_stream
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Parameter, Right
from console.v1.inside import inside_of, refusals
from security.acls.types import Operation, ResourceType

PAUSE_S: Final = 0.1


class GroupCoordinator(Answer):
    """The broker that coordinates a group."""

    coordinator: int | None
    """null if none does now: no group has been used in the cluster yet, or the partition of the group has no leader."""
    is_here: bool
    """Whether it is the broker that serves this console."""


async def find_coordinator(call: Call) -> GroupCoordinator:
    """Find the broker that coordinates a group, which need not exist yet. Only its console shows the timeline."""
    inside = inside_of(call)
    broker_id = inside.rebalances.coordinator(_group_of(call))
    return GroupCoordinator(coordinator=broker_id, is_here=broker_id == inside.broker_id)


def _group_of(call: Call) -> str:
    """Return the group of the query. Raises RestError if the reader may not describe it."""
    group_id = call.query["group"]
    if not call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        raise not_found(f"there is no group {group_id} that you may describe")
    return group_id


async def watch_group(call: Call) -> web.StreamResponse:
    """Tell live what happens in a group: events `group`, the group as it is at first.

    Only the console of the group's coordinator, a broker of Ottla, has this.
    """
    group_id = _group_of(call)
    with refusals():
        timeline = inside_of(call).rebalances.watch(group_id)
    try:
        async with event_stream(call) as events:
            number = 0
            async for _ in events.ticks(PAUSE_S, timeline.changed):
                for one in timeline.after(number):
                    await events.send("group", one)
                    number = one.number
        return events.response
    finally:
        timeline.close()


_GROUP: Final = (Parameter("group", is_required=True),)
OPERATIONS: Final = (
    ApiOperation(
        "GET",
        "/inside/groups/coordinator",
        find_coordinator,
        Right(Operation.DESCRIBE),
        GroupCoordinator,
        query=_GROUP,
    ),
    ApiOperation(
        "GET",
        "/inside/groups/events",
        watch_group,
        Right(Operation.DESCRIBE),
        query=_GROUP,
        events=GroupEvent,
    ),
)

"""The timeline of a group, from its coordinator, a broker of Ottla."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from console.inspection.rebalances import GroupEvent
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.event_stream import event_stream
from console.rest.operation import ApiOperation, Parameter, Right
from console.v1.inside import inside_of, refusals
from security.acls.types import Operation, ResourceType

PAUSE_S: Final = 0.1


async def watch_group(call: Call) -> web.StreamResponse:
    """Tell live what happens in a group: events `group`, the group as it is at first.

    Only the console of the group's coordinator, a broker of Ottla, has this.
    """
    group_id = call.query["group"]
    if not call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        raise not_found(f"there is no group {group_id} that you may describe")
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


OPERATIONS: Final = (
    ApiOperation(
        "GET",
        "/inside/groups/events",
        watch_group,
        Right(Operation.DESCRIBE),
        query=(Parameter("group", is_required=True),),
        events=GroupEvent,
    ),
)

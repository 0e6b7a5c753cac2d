"""The registry tree of a broker of Ottla, and its changes."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from console.inspection.registry import Znode
from console.rest.call import Call
from console.rest.errors import RestError, not_found
from console.rest.event_stream import event_stream
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Parameter, Right
from console.v1.inside import inside_of, refusals
from security.acls.types import Operation

MAX_PATHS: Final = 50
"""Nodes that one reader watches."""
PAUSE_S: Final = 0.2
"""Changes of this time are told together."""


class ChangedZnodes(Answer):
    """Nodes that may have changed: read them again."""

    paths: list[str]


async def get_znode(call: Call) -> Znode:
    """Return a node of the registry tree: decoded content without secrets, versions, owner, ACL, children.

    `contains` selects children by a part of their names. Only a broker of Ottla has this.
    """
    path = call.query["path"]
    with refusals():
        node = await inside_of(call).registry.node(path, call.rights, call.query.get("contains", ""))
    if node is None:
        raise not_found(f"there is no node {path}")
    return node


async def watch_znodes(call: Call) -> web.StreamResponse:
    """Tell live which nodes may have changed: events `changed`, for each `path` of the query, up to 50.

    The first event has no paths: from then on no change is missed. Only a broker of Ottla has this.
    """
    registry = inside_of(call).registry
    paths = call.request.query.getall("path")
    if len(paths) > MAX_PATHS:
        raise RestError(400, f"a reader can watch {MAX_PATHS} nodes, not {len(paths)}")
    changed, event = set[str](), asyncio.Event()

    def note(path: str) -> None:
        changed.add(path)
        event.set()

    with refusals():
        watch = registry.watch(paths, call.rights, note)
    try:
        async with event_stream(call) as events:
            async for _ in events.ticks(PAUSE_S, event):
                found = sorted(changed)
                changed.clear()
                await events.send("changed", ChangedZnodes(paths=found))
        return events.response
    finally:
        watch.close()


_PATH: Final = Parameter("path", is_required=True)
OPERATIONS: Final = (
    ApiOperation(
        "GET", "/inside/registry", get_znode, Right(Operation.DESCRIBE), Znode, query=(_PATH, Parameter("contains"))
    ),
    ApiOperation(
        "GET",
        "/inside/registry/events",
        watch_znodes,
        Right(Operation.DESCRIBE),
        query=(_PATH,),
        events=ChangedZnodes,
    ),
)

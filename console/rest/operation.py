"""A row of the table of operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from aiohttp import web

from console.rest.call import Call
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType

if TYPE_CHECKING:
    from console.rest.models import Answer, Asked
    from console.rest.plain_answer import PlainAnswer

Handler: TypeAlias = "Callable[[Call], Awaitable[Answer | PlainAnswer | web.StreamResponse | None]]"
"""Returns the body of the answer, or a complete answer; None for an answer without a body."""


class Right(NamedTuple):
    """What an operation needs: that of its request in Kafka's protocol.

    `parameter` is the field of the path or of the body that names the resource; None for the cluster. GET needs the
    right to read this, other methods the right to change it.
    """

    operation: Operation
    resource_type: ResourceType = ResourceType.CLUSTER
    parameter: str | None = None
    or_on_cluster: bool = False
    """The same operation on the cluster is enough, as Create is for a topic."""

    def name(self, call: Call) -> str:
        """Return the name of the resource."""
        if self.parameter is None:
            return CLUSTER_NAME
        if self.parameter in call.request.match_info:
            return call.text(self.parameter)
        return str(getattr(call.asked, self.parameter))

    def is_given(self, call: Call) -> bool:
        """Return whether the sender of a request has this right."""
        ask = call.rights.sees if call.request.method == "GET" else call.rights.may
        if self.or_on_cluster and ask(self.operation, ResourceType.CLUSTER, CLUSTER_NAME):
            return True
        return ask(self.operation, self.resource_type, self.name(call))


class Parameter(NamedTuple):
    """A parameter of the query."""

    name: str
    is_required: bool = False
    choices: tuple[str, ...] = ()
    """Without case; empty: any text."""


class ApiOperation(NamedTuple):
    """One operation. The first paragraph of the handler's docstring describes it."""

    method: str
    path: str
    """Below the root of the table: `/v3`, `/api/v1`."""
    handler: Handler
    right: Right
    answers: type[Answer] | type[PlainAnswer] | None = None
    """The model of the body; None if there is none."""
    status: int = 200
    takes: type[Asked] | None = None
    """The model of the body of the request."""
    query: tuple[Parameter, ...] = ()
    events: type[Answer] | None = None
    """The model of the data of the events, if the answer is a stream of them. See `event_stream`."""
    is_stream: bool = False
    """The body of the request is not read before the handler is called: it is a sequence of `takes`."""

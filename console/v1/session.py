"""Who looks at the console, at which cluster, and what the pages may offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.rest.call import Call
from console.rest.operation import ApiOperation, Right
from console.rest.plain_answer import PlainAnswer
from security.acls.types import Operation


@dataclass
class Session(PlainAnswer):
    """The answer of `/session`."""

    cluster_id: str
    broker_id: int | None
    """The Ottla broker that serves this console: it answers about storage and registry. null for `ottla console`."""
    user: str | None
    """The user who has logged in; null if nobody has to."""
    may_change: bool
    """Whether the user may change anything at all. The right to each change is checked when it is asked for."""


async def get_session(call: Call) -> Session:
    """Return who looks at the console, and what the pages may offer."""
    inside, user = call.services.inside, call.rights.user
    return Session(
        cluster_id=call.cluster_id,
        broker_id=None if inside is None else inside.broker_id,
        user=None if user is None else str(user),
        may_change=call.rights.may_change,
    )


OPERATIONS: Final = (ApiOperation("GET", "/session", get_session, Right(Operation.DESCRIBE), Session),)

"""Ask every broker at the same time, in bounded time. An answer without one of them is an error that names it.

Operations of `/api/v1` show what the others have answered, and the sentences of `Problems` beside it; the shapes of
`/v3` have no place for such sentences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from console.rest.call import Call
from console.rest.errors import RETRIABLE_KAFKA_ERROR, RestError
from console.watching.patience import Problems

T = TypeVar("T")


async def ask_every_broker(call: Call, ask: Callable[[int], Awaitable[T]]) -> dict[int, T]:
    """Return the answers of all live brokers by id. Raises RestError (504) if one does not answer.

    ask: is called with the id of each broker.
    """
    problems = Problems()
    brokers = (await call.admin.describe_cluster()).brokers
    found = await problems.of_brokers({one.node_id: one.node_id for one in brokers}, ask)
    if problems.sentences:
        raise RestError(504, " ".join(problems.sentences), RETRIABLE_KAFKA_ERROR)
    return found

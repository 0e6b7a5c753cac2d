"""Waiting for a cluster that does not answer for a moment: one broker that restarts ends no query."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from client.backoff import Backoff
from client.errors import NoBrokersAvailableError

T = TypeVar("T")

DEFAULT_MS: Final = 60_000


async def patiently(action: Callable[[], Awaitable[T]], client: Mapping[str, Any]) -> T:
    """Run `action` again while no broker answers, for kafka.default.api.timeout.ms. `client`: a query's client options.

    Raises NoBrokersAvailableError, which then says how long it was tried, and what else `action` raises.
    """
    loop = asyncio.get_running_loop()
    timeout_ms = client.get("default_api_timeout_ms", DEFAULT_MS)
    backoff = Backoff(client.get("retry_backoff_ms", 100), client.get("retry_backoff_max_ms", 1_000))
    deadline = loop.time() + timeout_ms / 1000
    attempt = 0
    while True:
        try:
            return await action()
        except NoBrokersAvailableError as error:
            delay_s = backoff.delay_s(attempt)
            if loop.time() + delay_s > deadline:
                text = f"the cluster is gone, tried for {timeout_ms} ms (kafka.default.api.timeout.ms): {error}"
                raise NoBrokersAvailableError(text) from None
        await asyncio.sleep(delay_s)
        attempt += 1

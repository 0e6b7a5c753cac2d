"""Retries while a cluster does not answer, so that a broker that restarts within seconds does not end a query."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from client.errors import KafkaError, NoBrokersAvailableError
from client.wire.backoff import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS, Backoff, Retries

T = TypeVar("T")

DEFAULT_MS: Final = 60_000


async def retry(
    action: Callable[[], Awaitable[T]],
    *,
    timeout_s: float,
    only: type[KafkaError] = KafkaError,
    backoff: Backoff | None = None,
) -> T:
    """Run `action` until it does not fail with a retriable error of the class `only`; if no attempt is left before
    `timeout_s`, raise its last error.
    """
    retries = Retries(backoff or Backoff())
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        delay_s = retries.next_delay_s()
        try:
            return await action()
        except only as error:
            if not error.retriable or loop.time() + delay_s > deadline:
                raise
        await asyncio.sleep(delay_s)


async def until_reached(action: Callable[[], Awaitable[T]], client: Mapping[str, Any]) -> T:
    """Repeat `action` while no broker answers, for kafka.default.api.timeout.ms. `client`: a query's client options.

    Raises NoBrokersAvailableError, with the time of the attempts, and other errors of `action`.
    """
    timeout_ms = client.get("default_api_timeout_ms", DEFAULT_MS)
    backoff = Backoff(
        client.get("retry_backoff_ms", RETRY_BACKOFF_MS), client.get("retry_backoff_max_ms", RETRY_BACKOFF_MAX_MS)
    )
    try:
        return await retry(action, timeout_s=timeout_ms / 1000, only=NoBrokersAvailableError, backoff=backoff)
    except NoBrokersAvailableError as error:
        text = f"the cluster cannot be reached, tried for {timeout_ms} ms (kafka.default.api.timeout.ms): {error}"
        raise NoBrokersAvailableError(text) from None

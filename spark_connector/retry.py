"""Waiting for a cluster that cannot be reached for a moment: clients start anew for every task or batch, and a broker
that is started again is away for seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from client.errors import KafkaError

T = TypeVar("T")

_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 1.0


async def retry(action: Callable[[], Awaitable[T]], *, timeout_s: float) -> T:
    """Run `action` until it does not fail with a retriable error, or no attempt is left before `timeout_s`; then its
    last error.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    delay_s = _DELAY_S
    while True:
        try:
            return await action()
        except KafkaError as error:
            if not error.retriable or loop.time() + delay_s > deadline:
                raise
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, _MAX_DELAY_S)

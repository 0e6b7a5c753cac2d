"""Wait until brokers that are child processes serve clients."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from ottla.cluster.broker_child import BrokerChild
from ottla.command_line.failure import CommandError


async def wait_ready(brokers: Sequence[BrokerChild], registry_ended: Coroutine[Any, Any, str]) -> None:
    """Wait until all brokers serve clients. Raises CommandError if one of them, or their registry, ends first.

    registry_ended: waits until the registry has ended, and returns the message of the error.
    """
    registry = asyncio.create_task(registry_ended)
    waiting = {asyncio.create_task(_require_ready(broker)) for broker in brokers}
    tasks: set[asyncio.Task[Any]] = {registry, *waiting}
    try:
        while waiting:
            done, _ = await asyncio.wait({registry, *waiting}, return_when=asyncio.FIRST_COMPLETED)
            if registry in done:
                raise CommandError(await registry)
            for task in done & waiting:
                waiting.discard(task)
                await task
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.wait(tasks)


async def _require_ready(broker: BrokerChild) -> None:
    if not await broker.wait_ready():
        reason = broker.last_line.removeprefix("ottla: ")
        raise CommandError(f"{broker.name} ended {broker.end}: {reason}")

"""A warning on standard error while a producer's records fail and are sent again: else a command seems to hang."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ottla.command_line.clients import Producer
from ottla.command_line.progress import Progress
from ottla.command_line.session import say

INTERVAL_S = 1.0
_HINTS = {"KAFKA_STORAGE_ERROR": " (the broker's disk is full or has failed: see /readyz of its console, and its log)"}


@contextlib.asynccontextmanager
async def warn_of_retries(producer: Producer, progress: Progress) -> AsyncIterator[None]:
    """Print each kind of error once if records still fail a second later. `progress` is the line to erase first."""
    watcher = asyncio.create_task(_watch(producer, progress))
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.wait([watcher])


async def _watch(producer: Producer, progress: Progress) -> None:
    said: set[object] = set()
    was_failing = False
    while True:
        await asyncio.sleep(INTERVAL_S)
        error = producer.retried_error
        if error is not None and was_failing:
            kind = error.code or type(error)
            if kind not in said:
                said.add(kind)
                progress.clear()
                hint = "" if error.code is None else _HINTS.get(error.code.name, "")
                say(f"ottla: no acknowledgement yet, still trying: {error}{hint}")
        was_failing = error is not None

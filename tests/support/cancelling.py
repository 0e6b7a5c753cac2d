"""Cancels a task at each of its steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def cancel_at_each_step(begin: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Begin a coroutine again and again, and cancel it one turn of the event loop later each time, until it ends."""
    turns = 0
    while True:
        task = asyncio.create_task(begin())
        for _ in range(turns):
            await asyncio.sleep(0)
        if not task.cancel():
            await task
            return
        await asyncio.wait([task])
        turns += 1

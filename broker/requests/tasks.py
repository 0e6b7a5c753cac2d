"""Work that requests have begun: tasks of the broker, so that none of it outlives the services that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class RequestTasks:
    """What connections have under way, as tasks of `group`, which ends them with the broker."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Run work for one connection as a task of its own; what it raises stays in the future."""
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def finish() -> None:
            try:
                answer = await work
            except asyncio.CancelledError:
                answered.cancel()
                raise
            except Exception as error:
                if not answered.done():
                    answered.set_exception(error)
            else:
                if not answered.done():
                    answered.set_result(answer)

        finishing = finish()
        try:
            task = self._group.create_task(finishing)
        except RuntimeError:  # the group is not entered yet, or a service has died in this very turn of the loop
            finishing.close()
            if asyncio.iscoroutine(work):
                work.close()
            answered.cancel()
            return answered
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if asyncio.iscoroutine(work):
            task.add_done_callback(lambda _: work.close())  # cancelled before its first step it was never awaited
        return answered

    def cancel(self) -> None:
        """The broker stops."""
        for task in list(self._running):
            task.cancel()

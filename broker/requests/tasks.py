"""Work that requests have started, as tasks of the broker: none outlives the services that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class RequestTasks:
    """The tasks that requests have started, in the task group `group`, which ends them with the broker."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Awaitable[T]) -> asyncio.Future[T]:
        """Run work for one connection as its own task. An exception of the work is stored in the future."""
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def finish() -> None:
            try:
                answer = await work
            except Exception as error:
                if not answered.done():
                    answered.set_exception(error)
            else:
                if not answered.done():
                    answered.set_result(answer)

        def drop() -> None:
            """End what has not begun: nobody has awaited it."""
            if asyncio.iscoroutine(work):
                work.close()
            answered.cancel()

        finishing = finish()
        try:
            task = self._group.create_task(finishing)
        except RuntimeError:  # the group is not entered yet, or a service has failed in this turn of the event loop
            finishing.close()
            drop()
            return answered
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: drop())  # it may have been cancelled before its first step
        return answered

    def cancel(self) -> None:
        """Cancel all tasks: the broker is stopping."""
        for task in list(self._running):
            task.cancel()

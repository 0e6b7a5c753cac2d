"""Runs the handlers of one partition's records: up to `concurrency` at once, each lane in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from client.errors import IllegalStateError
from client.listener.partition_work import PartitionWork, WorkItem
from client.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

# How long a cancelled handler may take to clean up.
CANCEL_S = 1.0


class PartitionRunner:
    """Awaits `before(item)` before an item starts, then `handle(runner, item)`.

    If either raises, `failed` is called with the exception, and no further item starts.
    """

    def __init__(
        self,
        partition: TopicPartition,
        work: PartitionWork,
        *,
        concurrency: int,
        before: Callable[[WorkItem], Awaitable[None]] | None,
        handle: Callable[["PartitionRunner", WorkItem], Awaitable[None]],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.partition = partition
        self.work = work
        # The consumer is paused for this partition, as enough records wait.
        self.is_paused = False
        # No further item starts.
        self.is_over = False
        self._concurrency = concurrency
        self._before = before
        self._handle = handle
        self._failed = failed
        self._waiting: set[asyncio.Task[None]] = set()
        self._begun: set[asyncio.Task[None]] = set()

    def pump(self) -> None:
        """Start items while there is room."""
        while not self.is_over and len(self._waiting) + len(self._begun) < self._concurrency:
            item = self.work.take()
            if item is None:
                return
            task = asyncio.get_running_loop().create_task(self._run(item), name=f"handler of {self.partition}")
            self._waiting.add(task)
            task.add_done_callback(partial(self._done, item))

    async def _run(self, item: WorkItem) -> None:
        if self._before is not None:
            await self._before(item)
        task = asyncio.current_task()
        assert task is not None
        self._waiting.discard(task)
        self._begun.add(task)
        await self._handle(self, item)

    def _done(self, item: WorkItem, task: "asyncio.Task[None]") -> None:
        self._waiting.discard(task)
        self._begun.discard(task)
        if task.cancelled():
            if not self.is_over:  # cancelled by somebody else: an unhandled record must not be ignored
                self.is_over = True
                self._failed(IllegalStateError(f"a handler of {self.partition} was cancelled"))
        elif (error := task.exception()) is not None:
            self.is_over = True  # the container will stop
            self._failed(error)
        else:
            self.work.release(item)
            self.pump()

    async def drain(self, timeout_s: float) -> None:
        """Start no further item; let running handlers finish for at most `timeout_s`, then cancel them."""
        self.is_over = True
        for task in self._waiting:
            task.cancel()
        begun = set(self._begun)
        if begun and timeout_s > 0:
            _, begun = await asyncio.wait(begun, timeout=timeout_s)
            if begun:
                logger.warning("%s: %d handlers cancelled after %g s", self.partition, len(begun), timeout_s)
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun, timeout=CANCEL_S)

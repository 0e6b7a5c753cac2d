"""One replica on its way to another log directory: how much is copied at a time, and pauses after failures.

A step of copying is a turn of the event loop, so it is small. Where appends outrun the copying, the steps grow until
they do not; what a throttle allows in a second is the most that a step may have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from replication.partition import Partition
from replication.replication_quota import ReplicationQuota
from storage.log import Log
from storage.log_copy import LogCopy
from storage.log_manager import LogManager

STEP_BYTES = 128 * 1024
LARGEST_STEP_BYTES = 8 * 1024 * 1024
THROTTLED_PAUSE_S = 0.1
FIRST_RETRY_S = 0.02


class LogDirMove:
    """The copying of one replica until the copy is the replica."""

    def __init__(self, partition: Partition, current: Log, future: Log, logs: LogManager) -> None:
        self.key = (partition.topic, partition.partition)
        self.copy = LogCopy(logs, current, future)
        self.failures = 0
        self.delayed_until_s = 0.0
        self._partition = partition
        self._step = STEP_BYTES
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_taken(self) -> bool:
        """Whether somebody carries it on."""
        return not self._idle.is_set()

    def give_up(self) -> None:
        """Nothing is copied any more from the next turn of the event loop on."""
        self.copy.is_given_up = True
        self._stopped.set()

    async def until_idle(self) -> None:
        """Return when nobody works on it: neither log is touched any more."""
        await self._idle.wait()

    async def carry_on(self, quota: ReplicationQuota, rate: Callable[[], float]) -> bool:
        """Copy until the copy is the replica. False where it was given up, or a directory has failed.

        rate: bytes a second that all moves together may copy. Raises StorageError, ProtocolError.
        """
        self._idle.clear()
        try:
            while not self.copy.is_over:
                if quota.is_exceeded:
                    await self._pause(THROTTLED_PAUSE_S)
                elif await self._step_on(quota, max(int(min(rate(), self._step)), 1)):
                    return True
            return False
        finally:
            self._idle.set()

    async def _step_on(self, quota: ReplicationQuota, step: int) -> bool:
        """Copy some, or the rest. True where that was the end."""
        copy = self.copy
        behind = copy.bytes_behind
        if behind <= step and await copy.take_its_place(self._replaced, step):
            return True
        copied = await copy.copy(step)
        quota.record(copied)
        self.failures = 0
        grows = copy.bytes_behind > behind
        self._step = min(self._step * 2, LARGEST_STEP_BYTES) if grows else max(self._step // 2, STEP_BYTES)
        await asyncio.sleep(0)
        return False

    def _replaced(self, log: Log) -> None:
        self._partition.log = log

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass

    def delay(self, now_s: float, longest_s: float) -> None:
        """Something went wrong: a pause that doubles each time."""
        self.delayed_until_s = now_s + min(FIRST_RETRY_S * 2 ** min(self.failures, 16), longest_s)
        self.failures += 1

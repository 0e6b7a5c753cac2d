"""The move of one replica to another log directory: how much a step copies, and the pauses after failures.

A step blocks the event loop, so it is small: what takes some two milliseconds, which is more bytes of large batches
than of small ones. If appends are faster than the copying, the steps grow until the copy keeps up. A step is at most
what the throttle allows per second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from client.wire.backoff import Retries
from replication.partition import Partition
from replication.replication_quota import ReplicationQuota
from storage.directories.log_copy import LogCopy
from storage.log.log import Log
from storage.log_manager import LogManager

STEP_S = 0.002
SMALLEST_STEP_BYTES = 16 * 1024
LARGE_STEP_BYTES = 256 * 1024
LARGEST_STEP_BYTES = 8 * 1024 * 1024  # if the copy falls behind
THROTTLED_PAUSE_S = 0.1


class StepSize:
    """How many bytes a step copies. It doubles or halves after a step."""

    def __init__(self) -> None:
        self.bytes = SMALLEST_STEP_BYTES

    def adapt(self, took_s: float, *, falls_behind: bool) -> None:
        """Choose the next size. took_s: how long the last step took. falls_behind: more was appended meanwhile."""
        if falls_behind:
            self.bytes = min(self.bytes * 2, LARGEST_STEP_BYTES)
        elif took_s > STEP_S:
            self.bytes = max(self.bytes // 2, SMALLEST_STEP_BYTES)
        elif took_s < STEP_S / 2 and self.bytes < LARGE_STEP_BYTES:
            self.bytes *= 2


class LogDirMove:
    """Copies one replica until the copy replaces it."""

    def __init__(
        self,
        partition: Partition,
        current: Log,
        future: Log,
        logs: LogManager,
        now_s: Callable[[], float],
        retries: Retries,
    ) -> None:
        """now_s: a monotonic clock."""
        self.key = (partition.topic, partition.partition)
        self.copy = LogCopy(logs, current, future)
        self.retries = retries
        self.delayed_until_s = 0.0
        self._partition = partition
        self._now_s = now_s
        self._step = StepSize()
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_taken(self) -> bool:
        """Whether a worker is copying."""
        return not self._idle.is_set()

    def give_up(self) -> None:
        """Stop copying, from the next turn of the event loop on."""
        self.copy.is_given_up = True
        self._stopped.set()

    async def until_idle(self) -> None:
        """Return when no worker uses the two logs any more."""
        await self._idle.wait()

    async def carry_on(self, quota: ReplicationQuota, rate: Callable[[], float]) -> bool:
        """Copy until the copy replaces the replica. Return False if the move is given up or a directory has failed.

        rate: bytes per second that all moves together may copy. Raises StorageError, ProtocolError.
        """
        self._idle.clear()
        try:
            while not self.copy.is_over:
                if quota.is_exceeded:
                    await self._pause(THROTTLED_PAUSE_S)
                elif await self._step_on(quota, max(int(min(rate(), self._step.bytes)), 1)):
                    return True
            return False
        finally:
            self._idle.set()

    async def _step_on(self, quota: ReplicationQuota, step: int) -> bool:
        """Copy one step, or the rest. Return True if the copy has replaced the replica."""
        copy = self.copy
        behind = copy.bytes_behind
        if behind <= step:
            quota.record(behind)
            if await copy.replace_log(self._replaced, step):
                return True
        began_s = self._now_s()
        quota.record(await copy.copy(step))
        self._step.adapt(self._now_s() - began_s, falls_behind=copy.bytes_behind > behind)
        self.retries.succeeded()
        await copy.sync_some()
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

    def delay(self) -> None:
        """Count an error, and delay the next attempt."""
        self.delayed_until_s = self._now_s() + self.retries.next_delay_s()

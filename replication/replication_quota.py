"""Throttles on replication (KIP-73): bytes per second for the replicas that a topic's settings name.

Only replicas that are out of sync are held back; the traffic of the others counts all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from replication.partition import Partition
from storage.log.config import LogConfig

ALL_REPLICAS = ("*",)


class ReplicationQuota:
    """The traffic of one side: what this broker sends as a leader, or receives as a follower."""

    def __init__(
        self,
        rate: Callable[[], float],
        replicas: Callable[[LogConfig], tuple[str, ...]],
        broker_id: int,
        *,
        now_s: Callable[[], float],
        samples: int,
        sample_s: float,
    ) -> None:
        """rate: bytes per second. replicas: the topic's setting that names throttled replicas as `partition:broker`.

        The rate is measured over `samples` of `sample_s` seconds, the current one included.
        """
        self._rate = rate
        self._replicas = replicas
        self._broker_id = broker_id
        self._now_s = now_s
        self._window_s = samples * sample_s
        self._sample_s = sample_s
        self._samples: deque[tuple[float, int]] = deque()  # (start, bytes)

    def applies_to(self, partition: Partition) -> bool:
        """Whether this broker's replica of the partition is throttled."""
        log = partition.log
        if log is None:
            return False
        replicas = self._replicas(log.config)
        if not replicas:
            return False
        return replicas == ALL_REPLICAS or f"{partition.partition}:{self._broker_id}" in replicas

    def record(self, size: int) -> None:
        """Count bytes of a throttled replica."""
        now_s = self._now_s()
        samples = self._samples
        if samples and now_s - samples[-1][0] < self._sample_s:
            began_s, before = samples[-1]
            samples[-1] = (began_s, before + size)
        else:
            samples.append((now_s, size))
            self._forget(now_s)

    @property
    def is_exceeded(self) -> bool:
        """Whether the measured rate is above the allowed one."""
        now_s = self._now_s()
        self._forget(now_s)
        if not self._samples:
            return False
        measured_s = max(now_s - self._samples[0][0], self._sample_s)
        return sum(size for _, size in self._samples) / measured_s > self._rate()

    def _forget(self, now_s: float) -> None:
        samples = self._samples
        while samples and now_s - samples[0][0] >= self._window_s:
            samples.popleft()

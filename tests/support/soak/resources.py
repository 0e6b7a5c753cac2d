"""What the processes of the brokers have: memory and descriptors, at the beginning and at the end of a long run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psutil

MEMORY_FACTOR = 1.5
MEMORY_BYTES = 40 << 20
DESCRIPTORS = 60
"""What a broker may have more at the end. Each round leaves records of groups and transactions, and connections."""


class Resources(NamedTuple):
    """Those of one broker."""

    memory: int
    """Resident, in bytes."""
    descriptors: int
    threads: int

    def __str__(self) -> str:
        return f"{self.memory / 1e6:.0f} MB, {self.descriptors} descriptors, {self.threads} threads"


def measure(processes: Mapping[int, psutil.Process]) -> dict[int, Resources]:
    """Those of each broker."""
    return {
        broker_id: Resources(process.memory_info().rss, process.num_fds(), process.num_threads())
        for broker_id, process in sorted(processes.items())
    }


def growth(before: Mapping[int, Resources], after: Mapping[int, Resources]) -> list[str]:
    """What has grown by more than the tolerance."""
    found = []
    for broker_id, now in after.items():
        then = before[broker_id]
        if now.memory > MEMORY_FACTOR * then.memory + MEMORY_BYTES:
            found.append(f"broker {broker_id}: memory grew from {then} to {now}")
        if now.descriptors > then.descriptors + DESCRIPTORS:
            found.append(f"broker {broker_id}: descriptors grew from {then} to {now}")
    return found

"""What the brokers have at the beginning and at the end of a long run: memory, descriptors and asyncio tasks."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple

import psutil

from support.deadlines import DEADLINE_S

MEMORY_FACTOR = 1.5
MEMORY_BYTES = 40 << 20
DESCRIPTORS = 60
TASKS = 60
"""What a broker may have more at the end. Each round leaves records of groups and transactions, and connections."""


class Resources(NamedTuple):
    """Those of one broker."""

    memory: int
    """Resident, in bytes."""
    descriptors: int
    tasks: int

    def __str__(self) -> str:
        return f"{self.memory / 1e6:.0f} MB, {self.descriptors} descriptors, {self.tasks} tasks"


def measure(processes: Mapping[int, psutil.Process], consoles: Mapping[int, str]) -> dict[int, Resources]:
    """Those of each broker. consoles: the addresses of their consoles."""
    return {
        broker_id: Resources(process.memory_info().rss, process.num_fds(), _tasks(consoles[broker_id]))
        for broker_id, process in sorted(processes.items())
    }


def _tasks(console: str) -> int:
    with urllib.request.urlopen(f"http://{console}/metrics", timeout=DEADLINE_S) as answer:
        found = re.search(r"^ottla_tasks (\d+)", answer.read().decode(), flags=re.MULTILINE)
    assert found is not None, "no metric ottla_tasks"
    return int(found[1])


def growth(before: Mapping[int, Resources], after: Mapping[int, Resources]) -> list[str]:
    """What has grown by more than the tolerance.

    Each broker is compared with the most that one had before: one that was restarted at that moment had little.
    """
    then = Resources(*(max(values) for values in zip(*before.values(), strict=True)))
    found = [f"broker {broker_id}: it does not run" for broker_id in before.keys() - after.keys()]
    for broker_id, now in after.items():
        if now.memory > MEMORY_FACTOR * then.memory + MEMORY_BYTES:
            found.append(f"broker {broker_id}: memory grew from {then} to {now}")
        if now.descriptors > then.descriptors + DESCRIPTORS:
            found.append(f"broker {broker_id}: descriptors grew from {then} to {now}")
        if now.tasks > then.tasks + TASKS:
            found.append(f"broker {broker_id}: tasks grew from {then} to {now}")
    return found

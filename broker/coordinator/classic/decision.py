"""The decision of a step of a classic group: answers to requests, timers, and a record to append.

A step (rebalance.py, membership.py) changes the group and collects a `Decision`, which `ClassicGroups` (groups.py)
carries out. A step has no other effect outside the group. The outcome of a write is an event like a request or an
expired timer: it begins another step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.coordinator.group_timers import TimerKey

SESSION, PENDING, JOIN, SYNC = "session", "pending", "join", "sync"
"""Kinds of timers: a member's session, a pending member id, the join phase and the sync phase of a rebalance."""

Waiter = asyncio.Future
"""A request that waits for its answer. A group only stores it; `ClassicGroups` sets the result."""


class Replacement(NamedTuple):
    """A static member that has replaced its member id without a rebalance (KIP-345)."""

    new_id: str
    old_id: str
    old_leader_id: str | None
    old_protocols: tuple[tuple[str, bytes], ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    can_skip_assignment: bool
    """See `Joining`."""


class Write(NamedTuple):
    """The group's record to append: a generation with its assignments, or a static member's new id."""

    generation: int
    assignments: Mapping[str, bytes]
    """By member id. Empty if the group is empty."""
    replacement: Replacement | None = None


class Decision:
    """See the module docstring."""

    __slots__ = ("answers", "timers", "write")

    def __init__(self) -> None:
        self.answers: list[tuple[Waiter[Any], Any]] = []
        self.timers: dict[TimerKey, int | None] = {}
        """See `TimerChanges`."""
        self.write: Write | None = None

"""The decision of a step of a classic group: answers to requests, timers, and a record to append.

A step (rebalance.py, membership.py) changes the group and collects a `Decision`, which `ClassicGroups` (groups.py)
carries out. A step has no other effect outside the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocol.error_codes import ErrorCode

SESSION, PENDING, JOIN, SYNC = "session", "pending", "join", "sync"
"""Kinds of timers: a member's session, a pending member id, the join phase and the sync phase of a rebalance."""
TimerKey = tuple[str, str]
"""The kind and the member id ("" for a timer of the group)."""


Waiter = asyncio.Future
"""A request that waits for its answer. A group only stores it; `ClassicGroups` sets the result."""


class Write(NamedTuple):
    """A request to append the group's record."""

    assignments: Mapping[str, bytes]
    """By member id."""
    then: Callable[[ErrorCode], None]
    """Called with the outcome when the record is committed or has failed. It collects another decision."""


class Decision:
    """See the module docstring."""

    __slots__ = ("answers", "timers", "write")

    def __init__(self) -> None:
        self.answers: list[tuple[Waiter[Any], Any]] = []
        self.timers: dict[TimerKey, int | None] = {}
        """The delay in ms of each timer to set; None to cancel the timer."""
        self.write: Write | None = None

"""What a step of a classic group decides: answers, timers, and a record to append.

A step (rebalance.py, membership.py) changes the group and collects a `Decision`. `ClassicGroups` (groups.py) carries it
out. Nothing else of a step is visible outside the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from protocol.error_codes import ErrorCode

SESSION, PENDING, JOIN, SYNC = "session", "pending", "join", "sync"
"""Kinds of timers: of a member, of an id that was given out, of a rebalance, of the SyncGroups of a generation."""
TimerKey = tuple[str, str]
"""The kind and the member id ("" for timers of the group)."""


Waiter = asyncio.Future
"""A request that waits for its answer. A group keeps it, and never calls it."""


class Write(NamedTuple):
    """The group's record is to be appended."""

    assignments: Mapping[str, bytes]
    """By member id."""
    then: Callable[[ErrorCode], None]
    """How the step goes on once the record is committed or has failed: it makes another decision."""


class Decision:
    """See the module docstring."""

    __slots__ = ("answers", "timers", "write")

    def __init__(self) -> None:
        self.answers: list[tuple[Waiter[Any], Any]] = []
        self.timers: dict[TimerKey, int | None] = {}
        """The delay in ms of each timer to set; None: cancel it."""
        self.write: Write | None = None

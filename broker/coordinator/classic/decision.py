"""The decision of a step of a classic group: answers to requests, timers, and a record to append.

A step (rebalance.py, membership.py) collects a `Decision`, which `ClassicGroups` (groups.py) carries out. It changes
only what its group keeps in memory alone; README.md lists this. What its record changes is changed by other steps: one
begins when the record is in the log, another when it is committed or has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.coordinator.classic.member import Member, Waiter
from broker.coordinator.group_timers import TimerKey
from protocol.messages.join_group import JoinGroupResponse

SESSION, PENDING, JOIN, SYNC = "session", "pending", "join", "sync"
"""Kinds of timers: a member's session, a pending member id, the join phase and the sync phase of a rebalance."""


class Replacement(NamedTuple):
    """A static member that gets a new member id without a rebalance (KIP-345)."""

    old_id: str
    rejoined: Member
    """The member with its new id, which replaces the old one when the record is in the log."""
    waiter: Waiter[JoinGroupResponse]
    old_leader_id: str | None
    can_skip_assignment: bool
    """See `Joining`."""


class Write(NamedTuple):
    """The group's record to append: a generation with its assignments, or a static member's new id."""

    record: bytes
    """The value of the record."""
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

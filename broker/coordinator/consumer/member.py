"""A member of a consumer group (KIP-848) as its coordinator knows it, and what its assignment is made of.

A member never changes: each change makes another one, so that what a heartbeat decides can be written to the log
before it counts. The heartbeat protocol's members and those of the classic protocol (with `classic`) are alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

LEAVE_EPOCH = -1
"""The epoch with which a member leaves."""
LEAVE_STATIC_EPOCH = -2
"""The epoch of a static member that has gone and will be back, perhaps under another id."""

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic is without partitions."""

NOTHING: Assignment = {}


class MemberState(IntEnum):
    """How far a member is on the way to its target assignment, with the numbers of the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It still has to give partitions up."""
    UNRELEASED_PARTITIONS = 2
    """It has what is free, and waits for partitions that others still own."""
    UNKNOWN = 127


class ClassicMember(NamedTuple):
    """What a member said that joined by JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) by preference; never empty."""


class ConsumerMember(NamedTuple):
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """The topics that it named, sorted, each once."""
    regex: str | None = None
    """A regular expression of topics; None where it gave none, or an empty one."""
    assignor: str | None = None
    rebalance_timeout_ms: int = -1
    classic: ClassicMember | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    """What it may own."""
    revoking: Assignment = NOTHING
    """What it has been told to give up and has not yet."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """True where the member owns exactly what the target assignment of that epoch says."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def with_epoch(self, epoch: int) -> ConsumerMember:
        """The member in another epoch; where that is the same one, the previous one becomes the same, too."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)


def assignment_of(pairs: Iterable[tuple[bytes, Collection[int]]]) -> dict[bytes, frozenset[int]]:
    """An assignment from (topic id, partitions), where a topic may occur twice and have none."""
    assignment: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in pairs:
        if partitions:
            assignment[topic_id] = assignment.get(topic_id, frozenset()) | frozenset(partitions)
    return assignment

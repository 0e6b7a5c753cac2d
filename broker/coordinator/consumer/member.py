"""A member of a consumer group (KIP-848), and its assignment.

Members are immutable: each change makes a new object, so that the outcome of a heartbeat can be written to the log
before it takes effect. The same class is used for members of the consumer protocol and of the classic protocol; only
the latter have `classic`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

LEAVE_EPOCH = -1
"""The epoch with which a member leaves."""
LEAVE_STATIC_EPOCH = -2
"""The epoch of a static member that has left temporarily; it may come back with another member id."""

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is not contained."""

NOTHING: Assignment = {}


class MemberState(IntEnum):
    """How far a member's assignment has been reconciled with its target assignment, with the numbers of the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member still has to revoke partitions."""
    UNRELEASED_PARTITIONS = 2
    """The member has the free partitions of its target, and waits for partitions that other members still own."""
    UNKNOWN = 127


class ClassicMember(NamedTuple):
    """What a member that uses the classic protocol sent in JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) by preference; never empty."""


class ConsumerMember(NamedTuple):
    """One member of a consumer group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """The topic names that the member subscribes to, sorted and without duplicates."""
    regex: str | None = None
    """The regular expression that the member subscribes to; None if it sent none, or an empty one."""
    assignor: str | None = None
    rebalance_timeout_ms: int = -1
    classic: ClassicMember | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    """The partitions that the member may own."""
    revoking: Assignment = NOTHING
    """The partitions that the member has to revoke and still may own."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has exactly its target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def with_epoch(self, epoch: int) -> ConsumerMember:
        """Return the member with `epoch`, and with its current epoch as the previous one, even if they are equal."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)


def assignment_of(pairs: Iterable[tuple[bytes, Collection[int]]]) -> dict[bytes, frozenset[int]]:
    """Return the assignment of (topic id, partitions) pairs; a topic may occur twice, or without partitions."""
    assignment: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in pairs:
        if partitions:
            assignment[topic_id] = assignment.get(topic_id, frozenset()) | frozenset(partitions)
    return assignment

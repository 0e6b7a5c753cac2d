"""Replication of a partition: how far each replica is, and the way of one record."""

from __future__ import annotations

from typing import Protocol

from pydantic import Field

from console.rest.models import Answer


class FollowerState(Answer):
    """A follower, as its leader sees it."""

    broker_id: int
    end_offset: int | None
    """The log end offset. null: it has not fetched from this leader yet."""
    is_in_sync: bool
    caught_up_ms_ago: int | None
    """When it last had everything. null: not since this broker leads."""


class ReplicationState(Answer):
    """A partition on this broker. Only its leader knows the followers."""

    broker_id: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    min_insync_replicas: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    """Of this broker."""
    followers: list[FollowerState] = Field(default_factory=list)


class TraceStep(Answer):
    """A step on the way of a record.

    SENT by the console, RECEIVED by the broker, APPENDED by the leader, FETCHED (the fetch of a follower shows that it
    has the record), COMMITTED (the high watermark has passed it), ANSWERED (the console has the acknowledgement).
    """

    step: str
    broker_id: int | None
    at_us: int
    """Microseconds since SENT."""


class RecordTrace(Answer):
    """The way of one record."""

    topic: str
    partition: int
    offset: int
    position: int | None
    """Of its batch in the segment's file."""
    segment: int | None
    """The base offset of the segment."""
    steps: list[TraceStep]
    """By time."""
    missing: list[int]
    """Followers that did not fetch the record while it was watched."""


class PartitionTrace(Protocol):
    """Watches a partition, from its making until `close`."""

    async def settled(self, offset: int) -> list[int]:
        """Wait a moment until all followers have a record; return those that do not have it."""

    def steps(self, offset: int, sent_s: float) -> list[TraceStep]:
        """Return what the broker has seen of a record. sent_s: of `time.perf_counter`."""

    def close(self) -> None:
        """Stop watching."""


class ReplicationInspection(Protocol):
    """The partitions of a broker. Every method raises InspectionError."""

    def state(self, topic: str, partition: int) -> ReplicationState:
        """Return how far the replicas are."""

    def trace(self, topic: str, partition: int) -> PartitionTrace:
        """Watch a partition that this broker leads, for the next record."""

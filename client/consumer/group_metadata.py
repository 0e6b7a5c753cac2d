"""The parts of an offset commit: the offset, and the group or the member that commits it."""

from typing import NamedTuple


class ConsumerGroupMetadata(NamedTuple):
    """The identity with which offsets are committed. Commits of a member that was replaced are refused (KIP-447).

    `generation_id` is the member epoch in a group of the new protocol (KIP-848); -1 without a membership.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed offset. `leader_epoch` is the epoch of the record before it, -1 if unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""

"""What a commit of offsets says: an offset, and who commits: the group alone or a member in one generation."""

from typing import NamedTuple


class ConsumerGroupMetadata(NamedTuple):
    """What a commit names beside the offsets, so that a member that has been replaced commits nothing (KIP-447).

    `generation_id` is the member epoch in a group of the new protocol (KIP-848), -1 outside of a group's membership.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed offset. `leader_epoch` is that of the last record handled, -1 where it is not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""

"""The leader's view of its replicas: who is in sync, how far each has got, and what is therefore committed.

Pure arithmetic: no I/O, no clock, no log. The high watermark is the smallest log end offset of the in-sync replicas;
it never goes back, and it stands still while fewer replicas are in sync than min.insync.replicas asks for, since what
they hold is then not committed in the sense of acks=all (as Kafka 3.9 has it).
"""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN_OFFSET = -1


class InSyncReplicas:
    """One leader's replicas. Offsets are log end offsets: the offset of the next record."""

    __slots__ = ("end_offsets", "isr", "leader_id", "partition_epoch", "replicas")

    def __init__(self, leader_id: int, replicas: Iterable[int], isr: Iterable[int], partition_epoch: int) -> None:
        self.leader_id = leader_id
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        """Version of the partition's state znode, which an ISR change must name."""
        self.end_offsets = {replica: UNKNOWN_OFFSET for replica in self.replicas if replica != leader_id}
        """Of the followers, as they report them by fetching; UNKNOWN_OFFSET until the first fetch in this epoch."""

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """min.insync.replicas, but never more than there are replicas."""
        return min(min_insync_replicas, len(self.replicas))

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """True while acks=all must be refused."""
        return len(self.isr) < self.effective_min_isr(min_insync_replicas)

    def high_watermark(self, current: int, leader_end_offset: int, min_insync_replicas: int) -> int:
        """The high watermark given the leader's own log end offset; `current` where it may not move."""
        if not self.end_offsets:
            return leader_end_offset if leader_end_offset > current else current
        if self.is_under_min_isr(min_insync_replicas):
            return current
        smallest = leader_end_offset
        for replica in self.isr:
            if replica != self.leader_id:
                smallest = min(smallest, self.end_offsets.get(replica, UNKNOWN_OFFSET))
        return max(current, smallest)

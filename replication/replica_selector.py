"""The preferred read replica of a consumer (KIP-392): one in its own rack that has the requested offset."""

from __future__ import annotations

from collections.abc import Callable

from replication.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_replica(partition: Partition, offset: int, rack: str, rack_of: Callable[[int], str | None]) -> int | None:
    """Return the follower that should serve a consumer of a partition that this broker leads; None: the leader.

    Of the in-sync followers in the consumer's rack that have `offset`, choose the one with the highest log end offset;
    of equals, the one that was caught up last. rack_of: returns None if the consumer cannot reach the broker, or the
    broker has no rack.
    """
    sync = partition.sync
    if sync is None or not rack or rack_of(sync.leader_id) == rack:
        return None
    candidates = [
        (sync.end_offsets[replica], progress.last_caught_up_ms, -replica)
        for replica, progress in sync.progress.items()
        if replica in sync.isr
        and 0 <= progress.log_start_offset <= offset <= sync.end_offsets[replica]
        and rack_of(replica) == rack
    ]
    return -max(candidates)[2] if candidates else None

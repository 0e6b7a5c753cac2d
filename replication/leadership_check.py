"""Whether this broker still leads a partition, which its followers know.

A broker whose session has ended is replaced as a leader, and perhaps nobody can tell it: it is cut off from ZooKeeper.
It commits nothing any more, because acks=all needs its followers, but what it answers from memory may be old. Only
in-sync replicas are elected, and a replica that has heard of another leader no longer fetches from this one. So if
every in-sync follower fetches, no other leader was elected before.

A fetch that arrives may have been sent long ago. The one after it was sent when the first had been answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replication.in_sync_replicas import InSyncReplicas
    from replication.replica_manager import ReplicaManager

FETCHES = 2
_POLL_S = 0.02


async def is_still_leader(replicas: ReplicaManager, topic: str, partition: int, wait_s: float) -> bool:
    """Return whether this broker led the partition, without a break, until some moment after the call.

    False if it does not, or if an in-sync follower has not fetched often enough in `wait_s` seconds. An election of a
    replica that is not in sync (unclean.leader.election.enable) is not noticed.
    """
    key = (topic, partition)
    sync = _in_sync(replicas, key)
    if sync is None:
        return False
    deadline = asyncio.get_running_loop().time() + wait_s
    for _ in range(FETCHES):
        since_ms = sync.rules.now_ms()
        while not _all_have_fetched(sync, since_ms):
            if asyncio.get_running_loop().time() >= deadline:
                return False
            replicas.check_fetches(key)  # a partition that rests in a fetch session is not read
            await asyncio.sleep(_POLL_S)
            if _in_sync(replicas, key) is not sync:
                return False  # its term has ended
    return True


def _in_sync(replicas: ReplicaManager, key: tuple[str, int]) -> InSyncReplicas | None:
    """Return the replicas of this broker's term as the leader; None if it does not lead the partition."""
    partition = replicas.partitions.get(key)
    return None if partition is None else partition.sync


def _all_have_fetched(sync: InSyncReplicas, since_ms: int) -> bool:
    followers = (one for one in sync.maximal_isr if one != sync.leader_id)
    return all(sync.progress[one].last_fetch_ms > since_ms for one in followers)

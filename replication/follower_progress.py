"""What a leader knows about one follower from its fetches: when it was last caught up, and its broker epoch.

Time is monotonic, in milliseconds: setting the system clock must not put followers out of sync.
"""

from __future__ import annotations

from protocol.sentinels import UNKNOWN_BROKER_EPOCH, UNKNOWN_OFFSET
from replication.errors import NotLeaderOrFollowerError

NEVER = -(1 << 62)


class FollowerProgress:
    """One follower in one leader epoch. Its log end offset is in `InSyncReplicas.end_offsets`."""

    __slots__ = ("broker_epoch", "last_caught_up_ms", "last_fetch_ms", "leader_end_then", "log_start_offset")

    def __init__(self, last_caught_up_ms: int) -> None:
        """last_caught_up_ms: the start of the leader epoch for an in-sync replica, NEVER for the others."""
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = NEVER
        self.leader_end_then = UNKNOWN_OFFSET
        """The leader's log end offset at the follower's last fetch."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now_ms: int, broker_epoch: int) -> None:
        """Record that the follower requests records from `offset` on.

        The follower is caught up now if `offset` is the leader's log end offset. It was caught up at its last fetch if
        `offset` has reached the log end offset of that time: so a follower of a busy partition is in sync although it
        never reaches the current end. Raises NotLeaderOrFollowerError if the broker epoch is older than that of an
        earlier request (KIP-903).
        """
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            raise NotLeaderOrFollowerError(f"broker epoch {broker_epoch} is older than {self.broker_epoch}")
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.leader_end_then:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.leader_end_then = max(self.leader_end_then, leader_end)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def was_caught_up(self, last_fetch_ms: int) -> None:
        """Record that the follower was at the leader's end until `last_fetch_ms`, the time of its last request.

        For a partition that the session did not read because it had not changed.
        """
        self.last_caught_up_ms = max(self.last_caught_up_ms, last_fetch_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, last_fetch_ms)

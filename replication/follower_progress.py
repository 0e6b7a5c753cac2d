"""What a leader knows of one follower from its fetches: when it had everything last, and in which life of its broker.

Time is monotonic, in milliseconds: a clock that is set must not put followers out of sync.
"""

from __future__ import annotations

from replication.errors import NotLeaderOrFollowerError

NEVER = -(1 << 62)
UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1


class FollowerProgress:
    """One follower, in one epoch of its leader. Its log end offset is kept in `InSyncReplicas.end_offsets`."""

    __slots__ = ("broker_epoch", "last_caught_up_ms", "last_fetch_ms", "leader_end_then", "log_start_offset")

    def __init__(self, last_caught_up_ms: int) -> None:
        """last_caught_up_ms: the beginning of the epoch for an in-sync replica, NEVER for the others."""
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_ms = NEVER
        self.leader_end_then = UNKNOWN_OFFSET
        """The leader's log end offset when the follower fetched last."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now_ms: int, broker_epoch: int) -> None:
        """The follower asks for records from `offset` on.

        It is caught up now if that is the leader's end; it was at its last fetch if it has got what was the end then:
        so a follower of a busy partition is in sync although it never sees the end. Raises NotLeaderOrFollowerError
        for a request of an earlier life of the broker than one already seen (KIP-903).
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
        """Its requests up to this one left the partition out: it was at the leader's end all the time."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, last_fetch_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, last_fetch_ms)

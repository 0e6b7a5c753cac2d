"""The leader's view of its replicas: which are in sync, how far each has fetched, and what is therefore committed.

Pure arithmetic: no I/O, no log, and the time is a parameter. The high watermark is the smallest log end offset of the
maximal ISR. It never goes back. It does not advance while fewer replicas are in sync than min.insync.replicas requires:
their records are then not committed in the sense of acks=all (as in Kafka 3.9). The high watermark also waits for
replicas outside the ISR that are caught up: otherwise a replica that always lags by a little could never join. Caught
up means the same for both: neither replica.lag.time.max.ms nor replica.lag.max.messages is exceeded. So the high
watermark does not wait for a replica that leaves the ISR, and it can advance when time passes or a broker dies.

A change of the ISR is proposed to the controller, and is pending until the controller answers (KIP-497). Meanwhile the
*maximal* ISR applies: it contains replicas that are about to join, and still those that are about to leave. So whatever
the controller decides, a record counts as committed only if every in-sync replica has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from protocol.sentinels import UNKNOWN_OFFSET
from replication.follower_progress import NEVER, FollowerProgress

NO_LIMIT = -1


class LagRules:
    """The rules for when a follower counts as caught up, and the clock."""

    __slots__ = ("is_alive", "max_lag_messages", "max_lag_ms", "now_ms")

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        max_lag_ms: int = 30_000,
        max_lag_messages: int = NO_LIMIT,
        is_alive: Callable[[int], bool] = lambda broker_id: True,
    ) -> None:
        """now_ms: monotonic. max_lag_messages: NO_LIMIT, or how far behind a follower may be (Kafka before 0.9).

        is_alive: whether the metadata lists the broker. Replicas of other brokers do not join and are not waited for.
        """
        self.now_ms = now_ms
        self.max_lag_ms = max_lag_ms
        self.max_lag_messages = max_lag_messages
        self.is_alive = is_alive


class PendingIsr:
    """An ISR that is proposed to the controller."""

    __slots__ = ("isr", "joining")

    def __init__(self, isr: tuple[int, ...], joining: int | None) -> None:
        self.isr = isr
        self.joining = joining  # None: replicas leave


REFUSED_MS = 1_000
"""How long a follower that the controller refused is not proposed again. Each of its fetches would propose it."""


class InSyncReplicas:
    """One leader's replicas, in one leader epoch. Offsets are log end offsets: the offset of the next record."""

    __slots__ = ("end_offsets", "isr", "leader_id", "pending", "progress", "refused", "replicas", "rules")

    def __init__(
        self, leader_id: int, replicas: Iterable[int], isr: Iterable[int], rules: LagRules | None = None
    ) -> None:
        self.leader_id = leader_id
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        """The ISR as the controller knows it."""
        self.pending: PendingIsr | None = None
        self.rules = rules or LagRules()
        self.end_offsets = {replica: UNKNOWN_OFFSET for replica in self.replicas if replica != leader_id}
        """Log end offsets of the followers, as their fetches report them; UNKNOWN_OFFSET until the first fetch."""
        now_ms = self.rules.now_ms() if self.end_offsets else 0
        self.progress = {
            replica: FollowerProgress(now_ms if replica in self.isr else NEVER) for replica in self.end_offsets
        }

        self.refused: dict[int, tuple[int, int]] = {}
        """Followers that the controller refused as ineligible: the broker epoch of the proposal, and its time in ms."""

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, and the replica that is about to join."""
        pending = self.pending
        return self.isr if pending is None or pending.joining is None else pending.isr

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """min.insync.replicas, but at most the number of replicas."""
        return min(min_insync_replicas, len(self.replicas))

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """True while acks=all must be refused."""
        return len(self.isr) < self.effective_min_isr(min_insync_replicas)

    def high_watermark(self, current: int, leader_end_offset: int, min_insync_replicas: int) -> int:
        """Return the high watermark for this log end offset of the leader; `current` if it must not advance."""
        if not self.end_offsets:
            return leader_end_offset if leader_end_offset > current else current
        if self.is_under_min_isr(min_insync_replicas):
            return current
        smallest = leader_end_offset
        in_sync = self.maximal_isr
        for replica in in_sync:
            if replica != self.leader_id:
                smallest = min(smallest, self.end_offsets.get(replica, UNKNOWN_OFFSET))
        for replica, end_offset in self.end_offsets.items():
            if end_offset < smallest and replica not in in_sync and self._is_waited_for(replica, leader_end_offset):
                smallest = end_offset
        return max(current, smallest)

    def _is_waited_for(self, replica: int, leader_end_offset: int) -> bool:
        """Whether a replica outside the ISR holds back the high watermark."""
        rules = self.rules
        return not self._is_out_of_sync(replica, leader_end_offset, rules.now_ms()) and rules.is_alive(replica)

    def fetched(
        self, replica: int, offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int
    ) -> bool:
        """Record that a follower has requested records from `offset` on: it has all earlier ones.

        Return True if its log end offset has changed. Raises what `FollowerProgress.fetched` raises.
        """
        now_ms = self.rules.now_ms()
        self.progress[replica].fetched(offset, log_start_offset, leader_end_offset, now_ms, broker_epoch)
        moved = self.end_offsets[replica] != offset
        self.end_offsets[replica] = offset
        return moved

    # -- changes of the ISR ----------------------------------------------------------------------------------------

    def may_join(self, replica: int, high_watermark: int, epoch_start_offset: int, leader_end_offset: int) -> bool:
        """Return whether a follower outside the ISR has all committed records and has reached the leader's epoch.

        Without the second condition, it could lack records that are committed although the leader does not know it yet.
        """
        if self.pending is not None or replica in self.isr:
            return False
        end_offset = self.end_offsets[replica]
        return (
            end_offset >= high_watermark
            and end_offset >= epoch_start_offset
            and not self._is_too_far_behind(end_offset, leader_end_offset)
            and self.rules.is_alive(replica)
            and not self._was_refused(replica)
        )

    def note_refusal(self, replica: int, broker_epoch: int) -> None:
        """Do not let a follower join for REFUSED_MS, unless it registers again: it is probably about to stop."""
        self.refused[replica] = (broker_epoch, self.rules.now_ms())

    def _was_refused(self, replica: int) -> bool:
        if replica not in self.refused:
            return False
        broker_epoch, at_ms = self.refused[replica]
        return broker_epoch == self.progress[replica].broker_epoch and self.rules.now_ms() - at_ms < REFUSED_MS

    def out_of_sync(self, leader_end_offset: int) -> list[int]:
        """In-sync followers that are no longer caught up; none while a change is pending."""
        if self.pending is not None:
            return []
        now_ms = self.rules.now_ms()
        return [
            replica
            for replica in self.isr
            if replica != self.leader_id and self._is_out_of_sync(replica, leader_end_offset, now_ms)
        ]

    def _is_out_of_sync(self, replica: int, leader_end_offset: int, now_ms: int) -> bool:
        progress = self.progress.get(replica)
        if progress is None:
            return True
        end_offset = self.end_offsets[replica]
        if end_offset == leader_end_offset:
            return False
        is_late = now_ms - progress.last_caught_up_ms > self.rules.max_lag_ms
        return is_late or self._is_too_far_behind(end_offset, leader_end_offset)

    def _is_too_far_behind(self, end_offset: int, leader_end_offset: int) -> bool:
        limit = self.rules.max_lag_messages
        return limit != NO_LIMIT and leader_end_offset - max(end_offset, 0) > limit

    def propose(self, *, joining: int | None = None, leaving: Iterable[int] = ()) -> PendingIsr:
        """Begin a change: one replica joins, or some leave."""
        assert self.pending is None
        removed = set(leaving)
        isr = tuple(replica for replica in self.isr if replica not in removed)
        self.pending = PendingIsr(isr if joining is None else (*isr, joining), joining)
        return self.pending

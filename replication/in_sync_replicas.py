"""The leader's view of its replicas: who is in sync, how far each has got, and what is therefore committed.

Pure arithmetic: no I/O, no log, and the time is given. The high watermark is the smallest log end offset of the
maximal ISR; it never goes back, and it stands still while fewer replicas are in sync than min.insync.replicas asks
for, since what they hold is then not committed in the sense of acks=all (as Kafka 3.9 has it). Replicas outside the
ISR that are caught up are waited for, too: otherwise one that always lags by a little could never get in. Caught up
means the same for both: neither replica.lag.time.max.ms nor replica.lag.max.messages is exceeded. So a replica that
leaves the ISR for either reason is not waited for, and the high watermark can move when time passes or a broker dies.

A change of the ISR is proposed to the controller, and pending until it answers (KIP-497). Meanwhile the *maximal* ISR
holds: with replicas that are about to join, and still with those that are about to leave. So whatever the controller
has decided, no record counts as committed that is not on every in-sync replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replication.follower_progress import NEVER, UNKNOWN_OFFSET, FollowerProgress

NO_LIMIT = -1


class LagRules:
    """When a follower counts as caught up, and what time it is."""

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

        is_alive: whether the metadata know the broker; who is not alive does not join and is not waited for.
        """
        self.now_ms = now_ms
        self.max_lag_ms = max_lag_ms
        self.max_lag_messages = max_lag_messages
        self.is_alive = is_alive


class PendingIsr:
    """An ISR that the controller has been asked for."""

    __slots__ = ("isr", "joining")

    def __init__(self, isr: tuple[int, ...], joining: int | None) -> None:
        self.isr = isr
        self.joining = joining  # None: replicas leave


class InSyncReplicas:
    """One leader's replicas, in one leader epoch. Offsets are log end offsets: the offset of the next record."""

    __slots__ = ("end_offsets", "isr", "leader_id", "pending", "progress", "replicas", "rules")

    def __init__(
        self, leader_id: int, replicas: Iterable[int], isr: Iterable[int], rules: LagRules | None = None
    ) -> None:
        self.leader_id = leader_id
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        """As the controller knows it."""
        self.pending: PendingIsr | None = None
        self.rules = rules or LagRules()
        self.end_offsets = {replica: UNKNOWN_OFFSET for replica in self.replicas if replica != leader_id}
        """Of the followers, as they report them by fetching; UNKNOWN_OFFSET until the first fetch in this epoch."""
        now_ms = self.rules.now_ms() if self.end_offsets else 0
        self.progress = {
            replica: FollowerProgress(now_ms if replica in self.isr else NEVER) for replica in self.end_offsets
        }

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR with whoever may already have joined it."""
        pending = self.pending
        return self.isr if pending is None or pending.joining is None else pending.isr

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
        """A follower asks for records from `offset` on: it has everything before. True if its end has moved.

        Raises what `FollowerProgress.fetched` raises.
        """
        now_ms = self.rules.now_ms()
        self.progress[replica].fetched(offset, log_start_offset, leader_end_offset, now_ms, broker_epoch)
        moved = self.end_offsets[replica] != offset
        self.end_offsets[replica] = offset
        return moved

    # -- changes of the ISR ----------------------------------------------------------------------------------------

    def may_join(self, replica: int, high_watermark: int, epoch_start_offset: int, leader_end_offset: int) -> bool:
        """True where a follower outside the ISR has all that is committed, and has seen the leader's own epoch.

        Without the second, it could lack what was committed before the leader knew of that.
        """
        if self.pending is not None or replica in self.isr:
            return False
        end_offset = self.end_offsets[replica]
        return (
            end_offset >= high_watermark
            and end_offset >= epoch_start_offset
            and not self._is_too_far_behind(end_offset, leader_end_offset)
            and self.rules.is_alive(replica)
        )

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
        gone = set(leaving)
        isr = tuple(replica for replica in self.isr if replica not in gone)
        self.pending = PendingIsr(isr if joining is None else (*isr, joining), joining)
        return self.pending

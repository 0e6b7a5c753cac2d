"""Test doubles around classic groups: a manual clock, its timers, and a storage that may fail."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from broker.coordinator.classic.group import Group
from broker.coordinator.classic.groups import ClassicGroups
from broker.coordinator.classic.membership import Joining, Membership
from broker.coordinator.group_records import read_group
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

START_MS = 1_700_000_000_000
RANGE = (("range", b"r"),)


class VirtualTimer:
    """One timer of a `VirtualHost`."""

    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualHost:
    """Clock, ids and storage of groups.

    A write is refused with `outcome` if that is an error. Otherwise it is in the log, and completes at once or, with
    `holds`, when `release` is called.
    """

    def __init__(self, *, initial_delay_ms: int = 0, max_size: int = 1 << 31) -> None:
        self.clock_ms = START_MS
        self.initial_delay_ms = initial_delay_ms
        self.max_size = max_size
        self.holds = False
        self.outcome = ErrorCode.NONE
        self.stored: list[tuple[int, dict[str, bytes]]] = []
        self.values: list[bytes] = []
        self._held: list[Callable[[ErrorCode], None]] = []
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._numbers = itertools.count(1)

    @property
    def group_initial_rebalance_delay_ms(self) -> int:
        return self.initial_delay_ms

    @property
    def group_max_size(self) -> int:
        return self.max_size

    def now_ms(self) -> int:
        return self.clock_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(self.clock_ms + max(delay_ms, 0), callback)
        heapq.heappush(self._timers, (timer.due_ms, next(self._numbers), timer))
        return timer

    def new_uuid(self) -> str:
        return f"uuid-{next(self._numbers)}"

    def store(
        self,
        group_id: str,
        record: bytes,
        *,
        in_log: Callable[[], None] | None,
        finish: Callable[[ErrorCode], None],
    ) -> None:
        read = read_group(group_id, record, self.clock_ms)
        self.values.append(record)
        self.stored.append((read.generation, {one.member_id: one.assignment for one in read.members.values()}))
        if self.outcome is ErrorCode.NONE and in_log is not None:
            in_log()
        if self.holds and self.outcome is ErrorCode.NONE:
            self._held.append(finish)
        else:
            finish(self.outcome)

    def release(self, outcome: ErrorCode = ErrorCode.NONE, count: int = 1) -> None:
        """Commit the oldest write, or let it fail."""
        for done in [self._held.pop(0) for _ in range(min(count, len(self._held)))]:
            done(outcome)

    @property
    def held(self) -> int:
        """The number of writes that are neither committed nor failed."""
        return len(self._held)

    def advance(self, by_ms: int) -> None:
        """Advance the clock."""
        end_ms = self.clock_ms + by_ms
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self.clock_ms = max(self.clock_ms, due_ms)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self.clock_ms = end_ms

    @property
    def live_timers(self) -> int:
        """The number of pending timers."""
        return sum(timer.callback is not None for _, _, timer in self._timers)


class Answers(list):
    """A request that waits: its answer appears in the list."""

    def done(self) -> bool:
        return False

    set_result = list.append


def _heartbeat(joined: JoinGroupResponse, instance_id: str | None) -> HeartbeatRequest:
    return HeartbeatRequest(
        member_id=joined.member_id, group_instance_id=instance_id, generation_id=joined.generation_id
    )


class Table:
    """A group, and the requests of its members."""

    def __init__(self, host: VirtualHost) -> None:
        self.host = host
        self.group = Group("g", host.now_ms())
        self.classic = ClassicGroups(
            host, now_ms=host.now_ms, new_uuid=host.new_uuid, call_later=host.call_later, store=host.store
        )

    def step(self) -> AbstractContextManager[Membership]:
        """A step of the group."""
        return self.classic.step(self.group)

    def join(self, member_id: str = "", **changes: object) -> list[JoinGroupResponse]:
        """JoinGroup; the answer appears in the list."""
        joining = Joining(
            member_id=member_id,
            group_instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=60_000,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=RANGE,
            requires_member_id=False,
            can_skip_assignment=True,
            reason=None,
        )._replace(**changes)
        answers = Answers()
        with self.step() as step:
            step.join(joining, answers)
        return answers

    def sync(
        self, joined: JoinGroupResponse, assignments: Mapping[str, bytes] | None = None, **changes: object
    ) -> list[SyncGroupResponse]:
        """SyncGroup of a member that has joined."""
        answers = Answers()
        given = [
            SyncGroupRequestAssignment(member_id=one, assignment=data) for one, data in (assignments or {}).items()
        ]
        claims = {"member_id": joined.member_id, "generation_id": joined.generation_id} | changes
        with self.step() as step:
            step.sync(SyncGroupRequest(assignments=given, **claims), answers)
        return answers

    def heartbeat(self, joined: JoinGroupResponse, instance_id: str | None = None) -> ErrorCode:
        """Heartbeat of a member that has joined."""
        with self.step() as step:
            return step.heartbeat(_heartbeat(joined, instance_id))

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        """LeaveGroup."""
        with self.step() as step:
            return step.leave(MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=None))

    def gather(self, count: int, **changes: object) -> list[JoinGroupResponse]:
        """Create a stable group with a number of members. Return them, the leader first."""
        waiting = [self.join(**changes) for _ in range(count)]
        self.host.advance(0)
        leader = waiting[0][0].member_id if waiting[0] else ""
        while not all(waiting):  # the first may have been alone for a generation
            waiting[0] = self.join(leader, **changes)
            self.host.advance(0)
        joined = [answers[0] for answers in waiting]
        assignments = {one.member_id: one.member_id.encode() for one in joined}
        synced = [self.sync(one, assignments if one.leader == one.member_id else None) for one in joined]
        assert all(answers and not answers[0].error_code for answers in synced)
        return sorted(joined, key=lambda one: one.member_id != one.leader)

"""The rebalance of a classic group: how it begins, whom it waits for, and how the assignment is handed out.

It waits until every member has joined again, at most for the longest rebalance timeout among them (a first one waits
for more members: group.initial.rebalance.delay.ms). Who has not joined by then is no member any longer, but for static
members (KIP-345), who have until their session ends. The leader then gets all members and sends the assignment, which
is stored before anybody hears of it. Each member has a timer: what is not heard of for its session timeout is gone.
No I/O: answers are callbacks, timers and storage are the `Host`'s. Source: GroupCoordinator of 3.9; KIP-134, KIP-345.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from broker.coordinator.classic.group import Group, GroupState, join_error
from broker.coordinator.classic.member import Member, OnSynced, Timer
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

Stored = Callable[[ErrorCode], None]


class Host(Protocol):
    """What surrounds the groups: time, ids, storage, settings."""

    def now_ms(self) -> int:
        """The wall clock."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back after a time."""
        ...

    def new_uuid(self) -> str:
        """A random UUID as text."""
        ...

    def store(self, group: Group, assignments: Mapping[str, bytes], done: Stored) -> None:
        """Write the group with these assignments, by member id. `done` is called with the outcome, never at once."""
        ...

    @property
    def initial_delay_ms(self) -> int:
        """group.initial.rebalance.delay.ms."""
        ...

    @property
    def max_size(self) -> int:
        """group.max.size."""
        ...


class Rebalance:
    """Moves groups from one generation to the next."""

    def __init__(self, host: Host) -> None:
        self._host = host

    # -- joining ---------------------------------------------------------------------------------------------------

    def begin(self, group: Group, what: str, reason: str | None = None) -> None:
        if group.can_rebalance:
            self.prepare(group, what if not reason else f"{what}: {reason}")

    def prepare(self, group: Group, reason: str) -> None:
        """Begin a rebalance: everybody has to join again."""
        host = self._host
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._hand_out(group, {}, ErrorCode.REBALANCE_IN_PROGRESS)
        self.forget_sync(group)
        logger.info("group %s rebalances after generation %d: %s", group.group_id, group.generation, reason)
        if group.state is GroupState.EMPTY:
            delay_ms = host.initial_delay_ms
            group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.join_timer = host.call_later(delay_ms, lambda: self._initial_delay_over(group, delay_ms))
            group.move_to(GroupState.PREPARING_REBALANCE, host.now_ms())
        else:
            group.move_to(GroupState.PREPARING_REBALANCE, host.now_ms())
            self._wait_for_members(group)

    def _wait_for_members(self, group: Group) -> None:
        group.join_timer = self._host.call_later(group.rebalance_timeout_ms, lambda: self._complete_join(group))
        self.try_complete(group)

    def _initial_delay_over(self, group: Group, delayed_ms: int) -> None:
        left_ms = group.initial_delay_left_ms
        assert left_ms is not None
        if group.member_added and left_ms:
            group.member_added = False
            delay_ms = min(self._host.initial_delay_ms, left_ms)
            group.initial_delay_left_ms = max(left_ms - delayed_ms, 0)
            group.join_timer = self._host.call_later(delay_ms, lambda: self._initial_delay_over(group, delay_ms))
        else:
            self._complete_join(group)

    def try_complete(self, group: Group) -> None:
        """A rebalance waits no longer when all are here; the first one of a group waits in any case."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.initial_delay_left_ms is None
            and group.have_all_joined
        ):
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        """Begin the next generation with those who have joined."""
        if group.join_timer is not None:
            group.join_timer.cancel()
        group.join_timer = group.initial_delay_left_ms = None
        for member in [one for one in group.members.values() if one.on_joined is None and not one.is_static]:
            logger.info("group %s: %s has not joined in time", group.group_id, member.member_id)
            group.remove(member.member_id)
        if group.state is GroupState.DEAD:
            return
        if not group.elect_joined_leader() and group.members:
            # Only static members are left, and none has come: their sessions end at some time.
            group.join_timer = self._host.call_later(group.rebalance_timeout_ms, lambda: self._complete_join(group))
            return
        group.begin_generation(self._host.now_ms())
        if group.state is GroupState.EMPTY:
            logger.info("group %s is empty in generation %d", group.group_id, group.generation)
            self._host.store(group, {}, lambda error: _warn(group, error))
            return
        logger.info("group %s has %d members in generation %d", group.group_id, len(group.members), group.generation)
        for member in list(group.members.values()):
            group.answer_join(member, self.joined(group, member))
            self.expect_heartbeat(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        generation = group.generation
        group.sync_timer = self._host.call_later(
            group.rebalance_timeout_ms, lambda: self._sync_expired(group, generation)
        )

    # -- sync --------------------------------------------------------------------------------------------------------

    def sync(
        self,
        group: Group,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Mapping[str, bytes],
        answer: OnSynced,
    ) -> None:
        """SyncGroup: the leader brings the assignment, everybody gets a part of it."""
        error = group.check_generation(member_id, group_instance_id, generation)
        if error is None and (
            (protocol_type is not None and protocol_type != group.protocol_type)
            or (protocol_name is not None and protocol_name != group.protocol_name)
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is None and group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not None:
            answer(SyncGroupResponse(error_code=error))
            return
        member = group.members[member_id]
        self._has_synced(group, member_id)
        if group.state is GroupState.STABLE:
            answer(self._synced(group, member))
            self.expect_heartbeat(group, member)
            return
        group.wait_for_sync(member, answer)
        if group.leader_id == member_id:
            self._store_assignments(group, {one: bytes(assignments.get(one, b"")) for one in group.members})

    def _store_assignments(self, group: Group, assignments: dict[str, bytes]) -> None:
        generation = group.generation

        def stored(error: ErrorCode) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return  # another rebalance has begun, and has answered
            if error:
                self._hand_out(group, {}, error)
                self.begin(group, f"the assignment could not be stored ({error.name})")
            else:
                self._hand_out(group, assignments, ErrorCode.NONE)
                group.move_to(GroupState.STABLE, self._host.now_ms())

        self._host.store(group, assignments, stored)

    def _hand_out(self, group: Group, assignments: Mapping[str, bytes], error: ErrorCode) -> None:
        """Answer every SyncGroup that waits."""
        for member in list(group.members.values()):
            member.assignment = assignments.get(member.member_id, b"")
            response = SyncGroupResponse(error_code=error) if error else self._synced(group, member)
            if group.answer_sync(member, response):
                self.expect_heartbeat(group, member)  # its timer may have run out while it waited

    @staticmethod
    def _synced(group: Group, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )

    def _has_synced(self, group: Group, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.forget_sync(group)

    @staticmethod
    def forget_sync(group: Group) -> None:
        """Wait for nobody's SyncGroup any longer."""
        group.pending_sync.clear()
        if group.sync_timer is not None:
            group.sync_timer.cancel()
            group.sync_timer = None

    def _sync_expired(self, group: Group, generation: int) -> None:
        group.sync_timer = None
        if generation != group.generation or not group.pending_sync:
            return
        if not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        silent = sorted(group.pending_sync)
        for member_id in silent:
            group.remove(member_id)
        self.prepare(group, f"no SyncGroup came from {silent}")

    # -- who is there ---------------------------------------------------------------------------------------------

    def expect_heartbeat(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        if member.heartbeat is not None:
            member.heartbeat.cancel()
        member.heartbeat = self._host.call_later(
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
            lambda: self._heartbeat_expired(group, member),
        )

    def _heartbeat_expired(self, group: Group, member: Member) -> None:
        member.heartbeat = None
        if member.needs_heartbeat and group.members.get(member.member_id) is member:
            self.remove(group, member, "has not been heard of for its session timeout")

    def remove(self, group: Group, member: Member, why: str) -> None:
        logger.info("group %s: %s %s", group.group_id, member.member_id, why)
        group.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.begin(group, f"{member.member_id} {why}")
        else:
            self.try_complete(group)

    def joined(self, group: Group, member: Member) -> JoinGroupResponse:
        leads = group.leader_id == member.member_id
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.member_list if leads else [],
        )


def _warn(group: Group, error: ErrorCode) -> None:
    """An empty generation that is not stored is harmless: the one before comes back, and its members time out."""
    if error:
        logger.warning("group %s: that it is empty could not be stored: %s", group.group_id, error.name)

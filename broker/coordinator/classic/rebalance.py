"""The rebalance of a classic group: the join phase, the sync phase, and the session timers of the members.

The join phase waits until every member has joined again, at most for the longest rebalance timeout of the members. The
first rebalance of a group waits for more members (group.initial.rebalance.delay.ms). Members that have not joined in
time are removed, except for static members (KIP-345), which remain until their session expires. The leader then
gets the list of members and sends the assignment with its SyncGroup. The assignment is committed to the log before any
member receives it. A member that sends nothing for its session timeout is removed.
No I/O: a step collects a `Decision`, and changes what its group keeps in memory alone. Source: GroupCoordinator of
3.9; KIP-134, KIP-345.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from broker.coordinator.classic.decision import JOIN, PENDING, SESSION, SYNC, Decision, Write
from broker.coordinator.classic.group import Group, GroupState, InitialDelay, join_error
from broker.coordinator.classic.member import Member, Waiter
from broker.coordinator.group_records import group_value
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

R = TypeVar("R")


class Rebalance:
    """One step of a group, from one generation to the next. `ClassicGroups` runs the steps."""

    __slots__ = ("_config", "_new_uuid", "_now_ms", "decision", "group")

    def __init__(
        self, group: Group, config: BrokerConfig, now_ms: Callable[[], int], new_uuid: Callable[[], str]
    ) -> None:
        self.group = group
        self._config = config
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self.decision = Decision()

    # -- parts of a decision -----------------------------------------------------------------------------------------

    def _set_timer(self, delay_ms: int, kind: str, member_id: str = "") -> None:
        self.decision.timers[(kind, member_id)] = delay_ms

    def _cancel_timer(self, kind: str, member_id: str = "") -> None:
        self.decision.timers[(kind, member_id)] = None

    def _store(self, assignments: Mapping[str, bytes]) -> None:
        """Write the current generation with these assignments."""
        self._write(Write(group_value(self.group, assignments), self.group.generation, assignments))

    def _write(self, write: Write) -> None:
        assert self.decision.write is None
        self.decision.write = write

    def _answer(self, waiter: Waiter[R], response: R) -> None:
        self.decision.answers.append((waiter, response))

    def _answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answer the member's JoinGroup, if one waits."""
        waiter = self.group.end_join(member)
        if waiter is not None:
            self._answer(waiter, response)

    def _answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer the member's SyncGroup. Return False if none waits."""
        waiter, member.syncing = member.syncing, None
        if waiter is None:
            return False
        self._answer(waiter, response)
        return True

    def _forget(self, member_id: str) -> None:
        """Remove a member or a pending member id, and cancel its timers."""
        self.group.remove(member_id)
        self._cancel_timer(SESSION, member_id)
        self._cancel_timer(PENDING, member_id)

    # -- joining ---------------------------------------------------------------------------------------------------

    def begin(self, what: str, reason: str | None = None) -> None:
        """Begin a rebalance if the state allows it."""
        if self.group.can_rebalance:
            self.prepare(what if not reason else f"{what}: {reason}")

    def prepare(self, reason: str) -> None:
        """Begin a rebalance: all members must join again."""
        group = self.group
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._hand_out({}, ErrorCode.REBALANCE_IN_PROGRESS)
        self._forget_sync()
        logger.info("group %s rebalances after generation %d: %s", group.group_id, group.generation, reason)
        if group.state is GroupState.EMPTY:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._delay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            group.move_to(GroupState.PREPARING_REBALANCE, self._now_ms())
        else:
            group.move_to(GroupState.PREPARING_REBALANCE, self._now_ms())
            self._set_timer(group.rebalance_timeout_ms, JOIN)
            self.try_complete()

    def _delay(self, delay_ms: int, left_ms: int) -> None:
        self.group.initial_delay = InitialDelay(delay_ms, left_ms)
        self._set_timer(delay_ms, JOIN)

    def _join_expired(self) -> None:
        group = self.group
        waited = group.initial_delay
        if waited is not None and waited.left_ms and group.member_added:
            group.member_added = False
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, waited.left_ms)
            self._delay(delay_ms, max(waited.left_ms - waited.delay_ms, 0))
        else:
            self._complete_join()

    def try_complete(self) -> None:
        """End the join phase if all members have joined. An initial delay is not cut short."""
        group = self.group
        if group.state is GroupState.PREPARING_REBALANCE and group.initial_delay is None and group.have_all_joined:
            self._complete_join()

    def _complete_join(self) -> None:
        """End the join phase: begin the next generation with the members that have joined."""
        group = self.group
        self._cancel_timer(JOIN)
        group.initial_delay = None
        for member in [one for one in group.members.values() if one.joining is None and not one.is_static]:
            logger.info("group %s: %s has not joined in time", group.group_id, member.member_id)
            self._forget(member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Only static members are left, and none of them has joined. Wait again, until their sessions expire.
            self._set_timer(group.rebalance_timeout_ms, JOIN)
            return
        group.begin_generation(self._now_ms())
        if group.state is GroupState.EMPTY:
            logger.info("group %s is empty in generation %d", group.group_id, group.generation)
            self._store({})
            return
        logger.info("group %s has %d members in generation %d", group.group_id, len(group.members), group.generation)
        for member in list(group.members.values()):
            self._answer_join(member, self._joined(member))
            self._expect_heartbeat(member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._set_timer(group.rebalance_timeout_ms, SYNC)

    # -- sync --------------------------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, waiter: Waiter[SyncGroupResponse]) -> None:
        """Handle a SyncGroup: the leader sends the assignment, and every member receives its own part of it."""
        group, member_id = self.group, request.member_id
        error = group.check_generation(member_id, request.group_instance_id, request.generation_id)
        if error is None and (
            request.protocol_type not in (None, group.protocol_type)
            or request.protocol_name not in (None, group.protocol_name)
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is None and group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not None:
            self._answer(waiter, SyncGroupResponse(error_code=error))
            return
        member = group.members[member_id]
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._cancel_timer(SYNC)
        if group.state is GroupState.STABLE:
            self._answer(waiter, self._synced(member))
            self._expect_heartbeat(member)
            return
        self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))  # an earlier one
        member.syncing = waiter
        if group.leader_id == member_id:
            given = {one.member_id: bytes(one.assignment) for one in request.assignments}
            self._store({one: given.get(one, b"") for one in group.members})

    def _generation_written(self, write: Write, error: ErrorCode) -> None:
        """Handle the outcome of the write of a generation.

        A failure with an empty generation is harmless: a reload restores the previous one, whose members then time out.
        """
        group = self.group
        if not write.assignments:
            if error:
                logger.warning("group %s: the empty generation could not be stored: %s", group.group_id, error.name)
        elif group.state is not GroupState.COMPLETING_REBALANCE or group.generation != write.generation:
            pass  # another rebalance has begun and has answered the SyncGroups
        elif error:
            self._hand_out({}, error)
            self.begin(f"the assignment could not be stored ({error.name})")
        else:
            self._hand_out(write.assignments, ErrorCode.NONE)
            group.move_to(GroupState.STABLE, self._now_ms())

    def _hand_out(self, assignments: Mapping[str, bytes], error: ErrorCode) -> None:
        """Set the members' assignments and answer every waiting SyncGroup."""
        for member in self.group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            response = SyncGroupResponse(error_code=error) if error else self._synced(member)
            if self._answer_sync(member, response):
                self._expect_heartbeat(member)  # the session timer may have expired while the SyncGroup waited

    def _synced(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.group.protocol_type, protocol_name=self.group.protocol_name, assignment=member.assignment
        )

    def _forget_sync(self) -> None:
        """Stop waiting for SyncGroups."""
        self.group.pending_sync.clear()
        self._cancel_timer(SYNC)

    def _sync_expired(self) -> None:
        group = self.group
        if not group.pending_sync or not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        silent = sorted(group.pending_sync)
        for member_id in silent:
            self._forget(member_id)
        self.prepare(f"no SyncGroup came from {silent}")

    # -- sessions -------------------------------------------------------------------------------------------------

    def _expect_heartbeat(self, member: Member, timeout_ms: int | None = None) -> None:
        self._set_timer(member.session_timeout_ms if timeout_ms is None else timeout_ms, SESSION, member.member_id)

    def _session_expired(self, member_id: str) -> None:
        member = self.group.members.get(member_id)
        if member is not None and member.needs_heartbeat:
            self._remove(member, "sent no heartbeat within its session timeout")

    def _remove(self, member: Member, why: str) -> None:
        group = self.group
        logger.info("group %s: %s %s", group.group_id, member.member_id, why)
        self._answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(member.member_id)
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.begin(f"{member.member_id} {why}")
        else:
            self.try_complete()

    def _joined(self, member: Member) -> JoinGroupResponse:
        group = self.group
        leads = group.leader_id == member.member_id
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.member_list if leads else [],
        )

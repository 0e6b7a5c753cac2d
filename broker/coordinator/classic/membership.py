"""Requests of members of classic groups: JoinGroup, Heartbeat, LeaveGroup; and the expiry of their timers.

A change of the members begins a rebalance (rebalance.py). No I/O, see there.
Source: GroupCoordinator of 3.9; KIP-345 (static members), KIP-394 (member id required), KIP-814.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from broker.coordinator.classic.decision import JOIN, PENDING, SESSION, Replacement, Write
from broker.coordinator.classic.group import GroupState, join_error
from broker.coordinator.classic.member import Member, Waiter
from broker.coordinator.classic.rebalance import Rebalance
from broker.coordinator.group_records import group_value
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member, which cannot send heartbeats yet, may wait for its first answer until it is removed."""


class Joining(NamedTuple):
    """The fields of a JoinGroup request, independent of its version."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    requires_member_id: bool
    """A new member gets MEMBER_ID_REQUIRED with its id first, and joins again with it (KIP-394, version 4)."""
    can_skip_assignment: bool
    """A static leader that comes back can be told to skip the assignment (KIP-814, version 9)."""
    reason: str | None


class Membership(Rebalance):
    """One step of a group: a request of a member, an expired timer, the outcome of a write, loading or unloading."""

    __slots__ = ()

    # -- join --------------------------------------------------------------------------------------------------------

    def join(self, joining: Joining, waiter: Waiter[JoinGroupResponse]) -> None:
        """Handle a JoinGroup. It is answered when the join phase of the rebalance ends, or at once with an error."""
        group = self.group
        if not self._has_room(joining.member_id):
            self._forget(joining.member_id)
            self._answer(waiter, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif group.state is GroupState.DEAD:  # moved or deleted: the client looks for the coordinator again
            self._answer(waiter, join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, joining.member_id))
        elif not group.supports(joining.protocol_type, joining.protocols):
            self._answer(waiter, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, joining.member_id))
        elif not joining.member_id:
            self._join_as_new(joining, waiter)
        elif joining.member_id in group.pending_members:
            if joining.group_instance_id is not None:  # only dynamic members get a pending member id
                self._answer(waiter, join_error(ErrorCode.UNKNOWN_MEMBER_ID, joining.member_id))
            else:
                self._add(joining, joining.member_id, waiter)
        else:
            self._join_again(joining, waiter)
        self.try_complete()

    def _has_room(self, member_id: str) -> bool:
        """Return whether group.max.size allows the member to join. During a rebalance the first to join have room."""
        group = self.group
        if group.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        member, max_size = group.members.get(member_id), self._config.group_max_size
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.waiting_count < max_size
        return member is not None or len(group.members) < max_size

    def _join_as_new(self, joining: Joining, waiter: Waiter[JoinGroupResponse]) -> None:
        group, instance_id = self.group, joining.group_instance_id
        member_id = f"{joining.client_id if instance_id is None else instance_id}-{self._new_uuid()}"
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add(joining, member_id, waiter)
            else:
                self._replace_static(joining, group.members[old_id], member_id, waiter)
        elif joining.requires_member_id:
            group.pending_members.add(member_id)
            self._set_timer(joining.session_timeout_ms, PENDING, member_id)
            self._answer(waiter, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(joining, member_id, waiter)

    def _add(self, joining: Joining, member_id: str, waiter: Waiter[JoinGroupResponse]) -> None:
        group = self.group
        member = Member(
            member_id,
            group_instance_id=joining.group_instance_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            session_timeout_ms=joining.session_timeout_ms,
            protocols=joining.protocols,
        )
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
            group.member_added = True
        group.add(member, joining.protocol_type)
        self._cancel_timer(PENDING, member_id)
        group.wait_for_join(member, waiter)
        self._expect_heartbeat(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.begin(f"new member {member_id}", joining.reason)

    def _join_again(self, joining: Joining, waiter: Waiter[JoinGroupResponse]) -> None:
        group = self.group
        error = group.check_member(joining.member_id, joining.group_instance_id)
        if error is None and group.state is GroupState.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None:
            self._answer(waiter, join_error(error, joining.member_id))
            return
        member = group.members[joining.member_id]
        changed = member.protocols != joining.protocols
        leads = group.leader_id == member.member_id
        if group.state is GroupState.COMPLETING_REBALANCE and not changed:
            self._answer(waiter, self._joined(member))  # the member has not received the first answer
        elif group.state is GroupState.STABLE and not changed and not leads:
            self._answer(waiter, self._joined(member))
        else:  # a leader may always begin a rebalance, for example because partitions were added
            self._update(member, joining, waiter)
            self.begin(f"member {member.member_id} joins again", joining.reason)

    def _replace_static(self, joining: Joining, member: Member, new_id: str, waiter: Waiter[JoinGroupResponse]) -> None:
        """Replace the member id of a static member that joins without it, without a rebalance if possible.

        Without a rebalance, the member is replaced when the group's record is in the log. Otherwise it is replaced at
        once: the rebalance ends with the record of the next generation.
        """
        group, old_id = self.group, member.member_id
        rejoined = member.rejoined(new_id, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        replacement = Replacement(old_id, rejoined, waiter, group.leader_id, joining.can_skip_assignment)
        logger.info(
            "group %s: %s rejoins as %s and replaces %s", group.group_id, joining.group_instance_id, new_id, old_id
        )
        if group.state is GroupState.STABLE:
            replaced = group.with_replaced(old_id, rejoined)
            if replaced.select_protocol() == group.protocol_name:
                assignments = {one.member_id: one.assignment for one in replaced.members.values()}
                self._write(Write(group_value(replaced, assignments), group.generation, assignments, replacement))
                return
        self.replace(replacement)
        if group.state is GroupState.COMPLETING_REBALANCE:  # the leader may have received the old id already
            self.prepare(f"static member {new_id} is back")
        elif group.state is GroupState.STABLE:
            self.begin(f"static member {new_id} is back with other protocols", joining.reason)

    def replace(self, replacement: Replacement) -> None:
        """Replace a static member. Requests that wait with the old member id get FENCED_INSTANCE_ID."""
        group, old_id, rejoined = self.group, replacement.old_id, replacement.rejoined
        old = group.members[old_id]
        self._answer_join(old, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self._answer_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        self._cancel_timer(SESSION, old_id)
        group.replace_static(old_id, rejoined)
        group.wait_for_join(rejoined, replacement.waiter)
        self._expect_heartbeat(rejoined)

    def written(self, write: Write, error: ErrorCode) -> None:
        """Handle the outcome of a write: the record is committed, or has failed."""
        if write.replacement is None:
            self._generation_written(write, error)
        else:
            self._replacement_written(write.replacement, write.generation, error)

    def _replacement_written(self, replaced: Replacement, generation: int, error: ErrorCode) -> None:
        """Answer the JoinGroup of a static member.

        If the log has refused the record, the member has not been replaced. If the record is in the log but could not
        be committed, the member remains replaced, as it is after the log is read again.
        """
        group, member = self.group, replaced.rejoined
        if error:
            logger.warning("group %s: %s could not be stored: %s", group.group_id, member.member_id, error.name)
        if error and replaced.old_id in group.members:
            self._answer(replaced.waiter, join_error(error))
            return
        if (
            group.state is not GroupState.STABLE
            or group.generation != generation
            or member.member_id not in group.members
        ):
            return  # a later step has changed the group, and has answered this JoinGroup or will
        if error:
            self._answer_join(member, join_error(error))
            self._expect_heartbeat(member)
            return
        response = self._joined(member)
        if replaced.can_skip_assignment:
            response.skip_assignment = group.leader_id == member.member_id
        else:  # an older client cannot skip the assignment, so its response must not name it as the leader
            response.members, response.leader = [], replaced.old_leader_id or ""
        self._answer_join(member, response)
        self._expect_heartbeat(member)  # the session timer may have expired while the JoinGroup waited

    def _update(self, member: Member, joining: Joining, waiter: Waiter[JoinGroupResponse]) -> None:
        """Update a member that joins again. An earlier JoinGroup that still waits gets REBALANCE_IN_PROGRESS."""
        self._answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        self.group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        self.group.wait_for_join(member, waiter)

    # -- heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Handle a Heartbeat: restart the session timer. REBALANCE_IN_PROGRESS means that the member must rejoin."""
        error = self.group.check_generation(request.member_id, request.group_instance_id, request.generation_id)
        if error is not None:
            return error
        self.restart_session(request.member_id)
        rebalances = self.group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE

    def restart_session(self, member_id: str) -> None:
        """Restart the session timer of a member that has sent a request."""
        self._expect_heartbeat(self.group.members[member_id])

    # -- time --------------------------------------------------------------------------------------------------------

    def expired(self, kind: str, member_id: str) -> None:
        """Handle an expired timer."""
        if kind == SESSION:
            self._session_expired(member_id)
        elif kind == PENDING:
            self.group.pending_members.discard(member_id)
            self.try_complete()
        elif kind == JOIN:
            self._join_expired()
        else:
            self._sync_expired()

    # -- leave -------------------------------------------------------------------------------------------------------

    def leave(self, identity: MemberIdentity) -> ErrorCode:
        """Remove a member (LeaveGroup). An administrator may name a static member by its instance id alone."""
        group, member_id = self.group, identity.member_id
        if not member_id:
            current_id = group.static_members.get(identity.group_instance_id or "")
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = current_id
        elif member_id in group.pending_members:
            self._forget(member_id)
            self.try_complete()
            return ErrorCode.NONE
        else:
            error = group.check_member(member_id, identity.group_instance_id)
            if error is not None:
                return error
        self._remove(group.members[member_id], f"leaves ({identity.reason or 'no reason given'})")
        return ErrorCode.NONE

    # -- loading -----------------------------------------------------------------------------------------------------

    def loaded(self) -> None:
        """Start the session timers of a group that was read from the log; rebalance if it exceeds group.max.size."""
        group = self.group
        if len(group.members) > self._config.group_max_size:
            self.prepare(f"{len(group.members)} members are more than group.max.size allows")
        for member in group.members.values():
            self._expect_heartbeat(member)

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Move the group to Dead, cancel its timers, and answer all waiting requests with `code`.

        The group was deleted, has another coordinator, or has changed its type.
        """
        group = self.group
        group.move_to(GroupState.DEAD, self._now_ms())
        group.pending_sync.clear()
        group.pending_members.clear()
        for key in group.timers:
            self._cancel_timer(*key)
        for member in group.members.values():
            self._answer_join(member, join_error(code, member.member_id))
            self._answer_sync(member, SyncGroupResponse(error_code=code))

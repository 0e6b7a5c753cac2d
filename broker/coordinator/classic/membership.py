"""What members of classic groups ask for: to join, to leave, and to be known to live.

Whatever changes the members begins a rebalance (rebalance.py). No I/O: answers are callbacks, timers and storage are
the `Host`'s. Source: GroupCoordinator of 3.9; KIP-345 (static members), KIP-394 (member id required), KIP-814.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from broker.coordinator.classic.group import Group, GroupState, join_error
from broker.coordinator.classic.member import Member, OnJoined
from broker.coordinator.classic.rebalance import Host, Rebalance
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""New members cannot send heartbeats while they wait for their first answer; who has hung up goes after this time."""


class Joining(NamedTuple):
    """What a JoinGroup says, whatever its version."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    requires_member_id: bool
    """A new member is sent back with an id first (KIP-394, version 4)."""
    can_skip_assignment: bool
    """A static leader that comes back can be told not to assign (KIP-814, version 9)."""
    reason: str | None


class Membership:
    """The operations of members on groups."""

    def __init__(self, host: Host, rebalance: Rebalance) -> None:
        self._host = host
        self._rebalance = rebalance

    # -- join --------------------------------------------------------------------------------------------------------

    def join(self, group: Group, joining: Joining, answer: OnJoined) -> None:
        """JoinGroup; `answer` is called when the rebalance has waited for everybody, or at once with an error."""
        if not self._has_room(group, joining.member_id):
            group.remove(joining.member_id)
            answer(join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif group.state is GroupState.DEAD:  # it moves to another coordinator, or is being removed: look again
            answer(join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, joining.member_id))
        elif not group.supports(joining.protocol_type, joining.protocols):
            answer(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, joining.member_id))
        elif not joining.member_id:
            self._join_as_new(group, joining, answer)
        elif joining.member_id in group.pending_members:
            if joining.group_instance_id is not None:  # ids are given out to dynamic members only
                answer(join_error(ErrorCode.UNKNOWN_MEMBER_ID, joining.member_id))
            else:
                self._add(group, joining, joining.member_id, answer)
        else:
            self._join_again(group, joining, answer)
        self._rebalance.try_complete(group)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether a member may join. During a rebalance those who came last are turned away."""
        if group.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.on_joined is not None) or group.waiting_count < self._host.max_size
        return member is not None or len(group.members) < self._host.max_size

    def _join_as_new(self, group: Group, joining: Joining, answer: OnJoined) -> None:
        instance_id = joining.group_instance_id
        member_id = f"{joining.client_id if instance_id is None else instance_id}-{self._host.new_uuid()}"
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add(group, joining, member_id, answer)
            else:
                self._replace_static(group, joining, group.members[old_id], member_id, answer)
        elif joining.requires_member_id:
            group.pending_members[member_id] = self._host.call_later(
                joining.session_timeout_ms, lambda: self._pending_expired(group, member_id)
            )
            answer(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, joining, member_id, answer)

    def _add(self, group: Group, joining: Joining, member_id: str, answer: OnJoined) -> None:
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
        group.wait_for_join(member, answer)
        self._rebalance.expect_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance.begin(group, f"new member {member_id}", joining.reason)

    def _join_again(self, group: Group, joining: Joining, answer: OnJoined) -> None:
        error = group.check_member(joining.member_id, joining.group_instance_id)
        if error is None and group.state is GroupState.EMPTY:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None:
            answer(join_error(error, joining.member_id))
            return
        member = group.members[joining.member_id]
        changed = member.protocols != joining.protocols
        leads = group.leader_id == member.member_id
        if group.state is GroupState.COMPLETING_REBALANCE and not changed:
            answer(self._rebalance.joined(group, member))  # it has not got the first answer
        elif group.state is GroupState.STABLE and not changed and not leads:
            answer(self._rebalance.joined(group, member))
        else:  # a leader may rebalance at will: what it assigns may have changed
            group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms, answer)
            self._rebalance.begin(group, f"member {member.member_id} joins again", joining.reason)

    def _replace_static(self, group: Group, joining: Joining, member: Member, new_id: str, answer: OnJoined) -> None:
        """A static member has come back without its member id: it takes its place again, at best unnoticed."""
        old_id, old_leader = member.member_id, group.leader_id
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        logger.info(
            "group %s: %s is back as %s, in place of %s", group.group_id, joining.group_instance_id, new_id, old_id
        )
        group.replace_static(member, new_id)
        group.update(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms, answer)
        self._rebalance.expect_heartbeat(group, member)
        if group.state is GroupState.COMPLETING_REBALANCE:  # the leader may have been told the old id already
            self._rebalance.prepare(group, f"static member {new_id} is back")
            return
        if group.state is not GroupState.STABLE:
            return
        if group.select_protocol() != group.protocol_name:
            self._rebalance.begin(group, f"static member {new_id} is back with other protocols", joining.reason)
            return
        generation = group.generation

        def stored(error: ErrorCode) -> None:
            if group.state is not GroupState.STABLE or group.generation != generation or member.member_id != new_id:
                return  # who has begun a rebalance meanwhile, or taken the place, has answered or will
            if error:
                logger.warning("group %s: %s could not be stored: %s", group.group_id, new_id, error.name)
                group.answer_join(member, join_error(error))
                group.replace_static(member, old_id)
                group.update(member, *before, None)
                self._rebalance.expect_heartbeat(group, member)
                return
            response = self._rebalance.joined(group, member)
            if joining.can_skip_assignment:
                response.skip_assignment = group.leader_id == member.member_id
            else:  # older clients must not take themselves for the leader: what they assign is not asked for
                response.members, response.leader = [], old_leader or ""
            group.answer_join(member, response)
            self._rebalance.expect_heartbeat(group, member)  # its timer may have run out while it waited

        self._host.store(group, {one.member_id: one.assignment for one in group.members.values()}, stored)

    # -- heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, group: Group, *, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat: the member lives, and hears of a rebalance."""
        error = group.check_generation(member_id, group_instance_id, generation)
        if error is not None:
            return error
        self.heard_of(group, member_id)
        rebalances = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE

    def heard_of(self, group: Group, member_id: str) -> None:
        """A member has asked for something: it lives."""
        self._rebalance.expect_heartbeat(group, group.members[member_id])

    def _pending_expired(self, group: Group, member_id: str) -> None:
        if group.pending_members.pop(member_id, None) is not None:
            self._rebalance.try_complete(group)

    # -- leave -------------------------------------------------------------------------------------------------------

    def leave(self, group: Group, identity: MemberIdentity) -> ErrorCode:
        """LeaveGroup of one member; an administrator may name a static member by its instance id alone."""
        member_id = identity.member_id
        if not member_id:
            current_id = group.static_members.get(identity.group_instance_id or "")
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = current_id
        elif member_id in group.pending_members:
            group.remove(member_id)
            self._rebalance.try_complete(group)
            return ErrorCode.NONE
        else:
            error = group.check_member(member_id, identity.group_instance_id)
            if error is not None:
                return error
        self._rebalance.remove(group, group.members[member_id], f"leaves ({identity.reason or 'no reason given'})")
        return ErrorCode.NONE

    # -- loading -----------------------------------------------------------------------------------------------------

    def loaded(self, group: Group) -> None:
        """A group has been read from the log: its members have their session timeouts to show up."""
        if len(group.members) > self._host.max_size:
            self._rebalance.prepare(group, f"{len(group.members)} members are more than group.max.size allows")
        for member in group.members.values():
            self._rebalance.expect_heartbeat(group, member)

    def unload(self, group: Group, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """The group is another coordinator's from now on, or nobody's, or of another type: all who wait are told."""
        group.move_to(GroupState.DEAD, self._host.now_ms())
        self._rebalance.forget_sync(group)
        if group.join_timer is not None:
            group.join_timer.cancel()
            group.join_timer = None
        for member in group.members.values():
            if member.heartbeat is not None:
                member.heartbeat.cancel()
            group.answer_join(member, join_error(code, member.member_id))
            group.answer_sync(member, SyncGroupResponse(error_code=code))
        for timer in group.pending_members.values():
            timer.cancel()
        group.pending_members.clear()

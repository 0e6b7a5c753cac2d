"""Members of consumer groups that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Such a member takes part as in a classic group without leader: its generation is its member epoch, its JoinGroup
request names the partitions that it owns, and the SyncGroup response contains its assignment. REBALANCE_IN_PROGRESS in
a Heartbeat response makes the member join again: because of a new target assignment, to confirm that it has revoked
partitions, or to get partitions that have become free. It has to do so within its rebalance timeout.
Source: GroupMetadataManager ("...ToConsumerGroup").
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.coordinator.classic.group import CONSUMER, NEWEST_SUBSCRIPTION, join_error
from broker.coordinator.classic.membership import Joining
from broker.coordinator.consumer.decision import JOIN, REBALANCE, SESSION, SYNC, Decision
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import Assignment, ClassicMember, ConsumerMember, MemberState, assignment_of
from broker.coordinator.consumer.membership import ConsumerMembership, claimed_static
from broker.coordinator.consumer.migration import serialized_assignment
from broker.coordinator.consumer.records import ConsumerRecord
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.consumer.update import GroupError, remove_members, replace_static, update_member
from broker.coordinator.group_timers import TimerKey
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.versioned import peek_version

logger = logging.getLogger(__name__)


class ConsumerClassic:
    """The steps of members that use the classic protocol. A rejected request raises GroupError."""

    def __init__(self, membership: ConsumerMembership) -> None:
        self._membership = membership

    # -- join --------------------------------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, joining: Joining) -> Decision[JoinGroupResponse]:
        """Handle JoinGroup. It does not wait for other members."""
        membership = self._membership
        is_new = not joining.member_id
        member_id = joining.member_id or membership.new_member_id()
        membership.check_room(group, member_id)
        if not group.supports(joining.protocol_type, [name for name, _ in joining.protocols]):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocols are not supported by the group")
        subscription = _subscription(joining)
        if is_new and joining.requires_member_id:
            return Decision(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        records, member = self._member(group, joining, member_id, is_new=is_new)
        old_static = group.static_member(joining.group_instance_id)
        image = membership.image()
        update = update_member(
            group,
            member,
            _said(member, joining, subscription),
            owned=_owned(subscription, image),
            image=image,
            now_ms=membership.now_ms(),
            default_assignor=membership.default_assignor,
        )
        updated = update.member
        response = JoinGroupResponse(
            generation_id=updated.epoch,
            protocol_type=CONSUMER,
            protocol_name=joining.protocols[0][0],
            member_id=member_id,
        )
        records += update.records
        if old_static is not None:
            downgrade = membership.downgrade(group, old_static, response, joining=updated, records=records)
            if downgrade is not None:
                return downgrade
        timers = {
            (JOIN, member_id): None,
            (REBALANCE, member_id): None,
            (SESSION, member_id): joining.session_timeout_ms,
            (SYNC, member_id): joining.rebalance_timeout_ms,
        }
        return Decision(response, records, timers, image)

    def _member(
        self, group: ConsumerGroup, joining: Joining, member_id: str, *, is_new: bool
    ) -> tuple[list[ConsumerRecord], ConsumerMember]:
        instance_id = joining.group_instance_id
        blank = ConsumerMember(member_id)
        if instance_id is None:
            return [], group.members.get(member_id, blank)
        if not is_new:
            return [], claimed_static(group, member_id, instance_id)
        known = group.static_member(instance_id)
        return ([], blank) if known is None else replace_static(group, known, member_id)

    # -- sync, heartbeat ---------------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        """Handle SyncGroup: return the member's assignment."""
        member_id = request.member_id
        member, classic = _claimed(group, member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        name = classic.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the member has joined with protocol {name}")
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return Decision(
                SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), timers=_join_timer(group, member)
            )
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=serialized_assignment(member.assigned, classic.protocols[0][1], self._membership.image()),
        )
        return Decision(response, timers={(SYNC, member_id): None, (SESSION, member_id): classic.session_timeout_ms})

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[ErrorCode]:
        """Handle Heartbeat. The answer is REBALANCE_IN_PROGRESS if the member has to join again."""
        member_id = request.member_id
        member, classic = _claimed(group, member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        session = {(SESSION, member_id): classic.session_timeout_ms}
        has_something_to_get = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        if (
            member.epoch < group.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or has_something_to_get
            or (group.image is not self._membership.image() and self._have_topics_changed(group))
        ):
            return Decision(ErrorCode.REBALANCE_IN_PROGRESS, timers=session | _join_timer(group, member))
        # The topics are equal, and are compared again only after the next change of the metadata.
        return Decision(ErrorCode.NONE, timers=session, image=self._membership.image())

    def _have_topics_changed(self, group: ConsumerGroup) -> bool:
        """Whether the group's topics differ from the cluster's, so that the next JoinGroup computes a new target."""
        records = remove_members(group, [], image=self._membership.image(), now_ms=self._membership.now_ms())
        return len(records) > 1  # more than the record of the group epoch

    # -- leave -------------------------------------------------------------------------------------------------------

    def leave(self, group: ConsumerGroup, identities: Iterable[MemberIdentity]) -> Decision[LeaveGroupResponse]:
        """Handle LeaveGroup. An administrator may name a static member by its instance id alone."""
        answered: list[MemberResponse] = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in identities:
            member_id = identity.member_id
            code = ErrorCode.NONE
            try:
                if identity.group_instance_id is not None and not member_id:
                    known = group.static_member(identity.group_instance_id)
                    member_id = "" if known is None else known.member_id
                member, _ = _claimed(group, member_id, identity.group_instance_id)
                leaving[member_id] = member
                logger.info("group %s: %s leaves (%s)", group.group_id, member_id, identity.reason or "no reason given")
            except GroupError as error:
                code = error.code
            answered.append(
                MemberResponse(member_id=member_id, group_instance_id=identity.group_instance_id, error_code=code)
            )
        response, image = LeaveGroupResponse(members=answered), self._membership.image()
        if not leaving:
            return Decision(response)
        records = remove_members(group, list(leaving.values()), image=image, now_ms=self._membership.now_ms())
        return Decision(response, records, image=image)


def _claimed(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[ConsumerMember, ClassicMember]:
    if instance_id is not None:
        member = claimed_static(group, member_id, instance_id)
    elif member_id in group.members:
        member = group.members[member_id]
    else:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {group.group_id}")
    if member.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} does not use the classic protocol")
    return member, member.classic


def _join_timer(group: ConsumerGroup, member: ConsumerMember) -> dict[TimerKey, int]:
    """Return the timer of a member that has to join again. A timer that is running is not restarted."""
    key = (JOIN, member.member_id)
    return {} if key in group.timers else {key: member.rebalance_timeout_ms}


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise GroupError(
            ErrorCode.ILLEGAL_GENERATION, f"the generation {generation} is not the member epoch {member.epoch}"
        )


def _subscription(joining: Joining) -> ConsumerProtocolSubscription:
    """Decode the subscription in a member's first protocol; all protocols of a member have the same one.

    A subscription of an unknown version is read as the newest known version, whose fields it begins with.
    """
    metadata = joining.protocols[0][1]
    try:
        version = min(peek_version(metadata), NEWEST_SUBSCRIPTION)
        return ConsumerProtocolSubscription.decode(metadata, version, 2)[0]
    except ProtocolError as error:
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the subscription of the member cannot be read: {error}"
        ) from None


def _owned(subscription: ConsumerProtocolSubscription, image: TopicsImage) -> Assignment:
    pairs = ((image.topic_id(one.topic), one.partitions) for one in subscription.owned_partitions)
    return assignment_of((topic_id, partitions) for topic_id, partitions in pairs if topic_id is not None)


def _said(member: ConsumerMember, joining: Joining, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    """Return the member with the fields of the JoinGroup request."""
    return member._replace(
        instance_id=joining.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex=None,
        client_id=joining.client_id,
        client_host=joining.client_host,
        classic=ClassicMember(joining.session_timeout_ms, joining.protocols),
    )

"""Handles ConsumerGroupHeartbeat, by which members join, stay in and leave consumer groups, and the members' timeouts.

A member is removed when it sends no heartbeat for the session timeout, or does not revoke partitions within its
rebalance timeout. A static member (group.instance.id) that leaves with epoch -2 keeps its assignment for the session
timeout. A step changes nothing: it returns a `Decision`, or raises GroupError for a request that is rejected.
No I/O. Source: GroupMetadataManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from broker.coordinator.consumer.decision import JOIN, REBALANCE, SESSION, SYNC, Decision, Downgrade
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import (
    LEAVE_STATIC_EPOCH,
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    assignment_of,
)
from broker.coordinator.consumer.migration import downgraded
from broker.coordinator.consumer.records import ConsumerRecord, current_record
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.consumer.update import GroupError, remove_members, replace_static, update_member
from broker.coordinator.group_records import Encoded, group_key, group_value
from broker.coordinator.group_timers import TimerChanges, TimerKey
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.consumer_group_heartbeat import (
    Assignment as AnsweredAssignment,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

logger = logging.getLogger(__name__)

R = TypeVar("R")


class Client(NamedTuple):
    """The client of a request."""

    client_id: str
    host: str


class ConsumerMembership:
    """The steps of members. A rejected request raises GroupError."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        default_assignor: str,
        image: Callable[[], TopicsImage],
        now_ms: Callable[[], int],
        new_member_id: Callable[[], str],
    ) -> None:
        """default_assignor: the first of group.consumer.assignors. new_member_id: for a member that sends no id.

        image: returns the topics of the cluster, the same object until the metadata change.
        """
        self._config = config
        self.default_assignor = default_assignor
        self.image = image
        self.now_ms = now_ms
        self.new_member_id = new_member_id

    # -- heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        conversion: Sequence[Encoded] = (),
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Handle the heartbeat of a member that joins or stays. conversion: see `Decision`."""
        config, image, group_id = self._config, self.image(), group.group_id
        joins = request.member_epoch == 0
        member_id = request.member_id or self.new_member_id()
        self.check_room(group, member_id)
        owned = None if request.topic_partitions is None else _owned(request.topic_partitions)
        if request.instance_id is None:
            records: list[ConsumerRecord] = []
            member = self._dynamic(group, member_id, request.member_epoch, owned)
        else:
            records, member = self._static(group, member_id, request.member_epoch, request.instance_id, owned)
        update = update_member(
            group,
            member,
            _said(member, request, client),
            owned=owned,
            image=image,
            now_ms=self.now_ms(),
            default_assignor=self.default_assignor,
        )
        updated = update.member
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        )
        names_topics = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        is_full = joins or (request.rebalance_timeout_ms != -1 and names_topics and owned is not None)
        if is_full or updated.assigned != member.assigned:
            response.assignment = _answered(updated.assigned)
        records += update.records
        if records and joins:
            logger.info("group %s: %s joins", group_id, member_id)
        timers: dict[TimerKey, int | None] = {
            (SESSION, member_id): config.group_consumer_session_timeout_ms,
            (JOIN, member_id): None,  # the member may have used the classic protocol before
            (SYNC, member_id): None,
        }
        if updated.state is not MemberState.UNREVOKED_PARTITIONS:
            timers[(REBALANCE, member_id)] = None
        elif updated != member:
            timers[(REBALANCE, member_id)] = updated.rebalance_timeout_ms
        return Decision(response, records, timers, image, conversion)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupError if the group is full and this is not one of its members."""
        limit = self._config.group_consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has reached its maximum of {limit} members")

    def _dynamic(self, group: ConsumerGroup, member_id: str, epoch: int, owned: Assignment | None) -> ConsumerMember:
        member = group.members.get(member_id)
        if member is None:
            if epoch:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {group.group_id}")
            return ConsumerMember(member_id)
        return _in_epoch(member, epoch, owned)

    def _static(
        self, group: ConsumerGroup, member_id: str, epoch: int, instance_id: str, owned: Assignment | None
    ) -> tuple[list[ConsumerRecord], ConsumerMember]:
        if epoch:
            return [], _in_epoch(claimed_static(group, member_id, instance_id), epoch, owned)
        known = group.static_member(instance_id)
        if known is None or known.member_id == member_id:
            member = known or group.members.get(member_id)
            return [], ConsumerMember(member_id) if member is None else _in_epoch(member, epoch, owned)
        if known.classic is None and known.epoch != LEAVE_STATIC_EPOCH:
            raise GroupError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"instance id {instance_id} is owned by {known.member_id}: {member_id} cannot join",
            )
        logger.info("group %s: %s rejoins as %s", group.group_id, instance_id, member_id)
        return replace_static(group, known, member_id)

    # -- leaving -----------------------------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Handle the heartbeat of a member that leaves permanently (-1) or, if it is static, temporarily (-2)."""
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is not None:
            member = claimed_static(group, member_id, instance_id)
        elif member_id in group.members:
            member = group.members[member_id]
        else:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {group.group_id}")
        response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
        if instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
            logger.info("group %s: static member %s leaves temporarily", group.group_id, instance_id)
            left = member._replace(epoch=LEAVE_STATIC_EPOCH, revoking=NOTHING)
            return Decision(response, [current_record(group.group_id, left)], {(REBALANCE, member_id): None})
        return self._remove(group, member, "leaves", response)

    def _remove(self, group: ConsumerGroup, member: ConsumerMember, why: str, response: R) -> Decision[R]:
        """Remove a member, and downgrade the group if this was its last member of the consumer protocol."""
        logger.info("group %s: %s %s", group.group_id, member.member_id, why)
        reason = f"its last member of the new protocol has left: {member.member_id}"
        downgrade = self.downgrade(group, member, response, reason=reason)
        if downgrade is not None:
            return downgrade
        image = self.image()
        return Decision(response, remove_members(group, [member], image=image, now_ms=self.now_ms()), image=image)

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: ConsumerMember,
        response: R,
        *,
        joining: ConsumerMember | None = None,
        records: Sequence[ConsumerRecord] = (),
        reason: str | None = None,
    ) -> Decision[R] | None:
        """Downgrade the group if `leaving` is its last member of the consumer protocol; None if it is not downgraded.

        joining: the member that replaces `leaving`, and its `records`. reason: why the classic group rebalances.
        """
        size = len(group.members) - (joining is None)
        if not (
            size
            and leaving.member_id in group.members
            and group.are_all_classic_but(leaving.member_id)
            and self._may_downgrade(size)
        ):
            return None
        try:
            classic = downgraded(group, leaving, joining, self.image(), self.now_ms())
        except ProtocolError as error:
            logger.warning("group %s cannot become a classic group: %s", group.group_id, error)
            return None
        written = [*records, *group.tombstones({} if joining is None else {leaving.member_id: joining.member_id})]
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        conversion = [record.encoded() for record in written]
        conversion.append((group_key(group.group_id), group_value(classic, assignments)))
        return Decision(response, conversion=conversion, downgrade=Downgrade(classic, reason))

    def _may_downgrade(self, size: int) -> bool:
        """Whether a consumer group may become a classic group of `size` members."""
        policy = self._config.group_consumer_migration_policy.lower()
        return policy in ("downgrade", "bidirectional") and size <= self._config.group_max_size

    # -- timeouts ----------------------------------------------------------------------------------------------------

    def expired(self, group: ConsumerGroup, kind: str, member_id: str) -> Decision[None] | None:
        """Handle an expired timer: remove the member. None if it is not in the group any more."""
        member = group.members.get(member_id)
        return None if member is None else self._remove(group, member, f"is removed ({kind} timeout)", None)

    def timers_of(self, group: ConsumerGroup) -> TimerChanges:
        """Return the timers of a group that has been loaded from the log, or created."""
        timers: dict[TimerKey, int | None] = {}
        for member_id, member in group.members.items():
            classic = member.classic
            timers[(SESSION, member_id)] = (
                self._config.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
            )
            if classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                timers[(REBALANCE, member_id)] = member.rebalance_timeout_ms
        return timers


def claimed_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member with this instance id. Raises GroupError if there is none, or its member id differs."""
    member = group.static_member(instance_id)
    if member is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"instance id {instance_id} is unknown")
    if member.member_id != member_id:
        raise GroupError(
            ErrorCode.FENCED_INSTANCE_ID, f"{member_id} with instance id {instance_id} was fenced by {member.member_id}"
        )
    return member


def refusal(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the response of a rejected heartbeat."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


def _in_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> ConsumerMember:
    """Return the member if its epoch is the one in the request. Raises GroupError (FENCED_MEMBER_EPOCH) if it is not.

    The member's previous epoch is accepted if the member owns no more than its assignment: a response was lost. With
    epoch 0 the member joins again, whatever its epoch is: it owns no partitions then, as the request states. (In Kafka
    3.9 a fenced member has to wait for the end of its own session first.)
    """
    if epoch == 0:
        return member._replace(epoch=0, previous_epoch=0)
    if epoch == member.epoch or (epoch == member.previous_epoch and _is_part(owned, member.assigned)):
        return member
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member epoch {epoch} is {'greater' if epoch > member.epoch else 'smaller'} than the one known here "
        f"({member.epoch}): the member must give up all its partitions and join again",
    )


def _is_part(owned: Assignment | None, assigned: Assignment) -> bool:
    if owned is None:
        return False
    return all(partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items())


def _owned(topic_partitions: Iterable[TopicPartitions]) -> Assignment:
    return assignment_of((one.topic_id, one.partitions) for one in topic_partitions)


def _said(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """Return the member with the fields of the request; fields that the request does not set are kept."""
    names, regex, timeout_ms = (
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.rebalance_timeout_ms,
    )
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else regex or None,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )


def _answered(assigned: Assignment) -> AnsweredAssignment:
    return AnsweredAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )

"""Handles ConsumerGroupHeartbeat, by which members join, stay in and leave consumer groups, and the members' timeouts.

A member is removed when it sends no heartbeat for the session timeout, or does not revoke partitions within its
rebalance timeout. A static member (group.instance.id) that leaves with epoch -2 keeps its assignment for the session
timeout. Each step is appended to the log and then applied; the response is sent once the records are committed. If the
append fails, the group does not change.
No I/O: the `ConsumerHost` provides storage, time, ids and settings. Source: GroupMetadataManager.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import TimerHandle
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import (
    LEAVE_STATIC_EPOCH,
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    assignment_of,
)
from broker.coordinator.consumer.records import ConsumerRecord, current_record
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.consumer.update import GroupError, remove_members, replace_static, update_member
from broker.coordinator.coordinator_log import Appended
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    Assignment as AnsweredAssignment,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

logger = logging.getLogger(__name__)

SESSION, REBALANCE, JOIN, SYNC = "session", "rebalance", "join", "sync"
"""The kinds of timers; JOIN and SYNC are used for members of the classic protocol only."""
RETRY_MS = 500
"""The wait before another attempt to remove a timed out member, if the log could not be written."""

R = TypeVar("R")
Encoded = tuple[bytes, bytes | None]
Committed = asyncio.Future[Appended]
"""Done when the records are committed or have failed."""


class Reply(NamedTuple, Generic[R]):
    """A response that may be sent once the records of its group are committed."""

    response: R
    committed: Committed | None
    """None if there is nothing to wait for."""


class ConsumerHost(Protocol):
    """What consumer groups need from the broker."""

    def now_ms(self) -> int:
        """Return the wall clock time in ms."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` after `delay_ms`."""
        ...

    def new_member_id(self) -> str:
        """Return a random id, for a member that sends none."""
        ...

    @property
    def image(self) -> TopicsImage:
        """The topics of the cluster; the same object until the metadata change."""
        ...

    def write(self, group_id: str, records: Sequence[Encoded]) -> Committed | None:
        """Append records to the log as one batch. They are in the log on return, so that the caller can apply them.

        Without records, return the future of the group's last write, or None if all its writes are committed. Raises
        GroupError.
        """
        ...

    @property
    def default_assignor(self) -> str:
        """The first of group.consumer.assignors."""
        ...

    @property
    def max_consumers(self) -> int:
        """group.consumer.max.size."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """group.consumer.session.timeout.ms."""
        ...

    @property
    def heartbeat_interval_ms(self) -> int:
        """group.consumer.heartbeat.interval.ms."""
        ...

    def downgrade(self, group: ConsumerGroup, leaving: ConsumerMember) -> Committed | None:
        """Downgrade the group to a classic group without `leaving` if that is its last member of the consumer protocol.

        Returns None if the group is not downgraded. Raises GroupError.
        """
        ...


class Client(NamedTuple):
    """The client of a request."""

    client_id: str
    host: str


class ConsumerMembership:
    """The operations of members. A rejected request raises GroupError."""

    def __init__(self, host: ConsumerHost) -> None:
        self._host = host

    # -- heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        before: Sequence[Encoded],
    ) -> Reply[ConsumerGroupHeartbeatResponse]:
        """Handle the heartbeat of a member that joins or stays.

        before: records of a change of the group's type, which are written first.
        """
        host, group_id = self._host, group.group_id
        joins = request.member_epoch == 0
        member_id = request.member_id or host.new_member_id()
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
            image=host.image,
            now_ms=host.now_ms(),
            default_assignor=host.default_assignor,
        )
        updated = update.member
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=host.heartbeat_interval_ms,
        )
        names_topics = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        is_full = joins or (request.rebalance_timeout_ms != -1 and names_topics and owned is not None)
        if is_full or updated.assigned != member.assigned:
            response.assignment = _answered(updated.assigned)
        epoch = group.assignment_epoch
        records += update.records
        if records and joins:
            logger.info("group %s: %s joins", group_id, member_id)
        committed = self.write(group, records, before)
        if group.assignment_epoch != epoch:
            logger.info("group %s has %d members in epoch %d", group_id, len(group.members), group.epoch)
        group.image = host.image
        self.expect(group, member_id, SESSION, host.session_timeout_ms)
        for kind in (JOIN, SYNC):  # the member may have used the classic protocol before
            self.expect_no_longer(group, member_id, kind)
        if updated.state is not MemberState.UNREVOKED_PARTITIONS:
            self.expect_no_longer(group, member_id, REBALANCE)
        elif updated != member:
            self.expect(group, member_id, REBALANCE, updated.rebalance_timeout_ms)
        return Reply(response, committed)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupError if the group is full and this is not one of its members."""
        limit = self._host.max_consumers
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
    ) -> Reply[ConsumerGroupHeartbeatResponse]:
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
            committed = self.write(group, [current_record(group.group_id, left)])
            self.expect_no_longer(group, member.member_id, REBALANCE)
        else:
            committed = self._remove(group, member, "leaves")
        return Reply(response, committed)

    def _remove(self, group: ConsumerGroup, member: ConsumerMember, why: str) -> Committed | None:
        """Remove a member, and downgrade the group if this was its last member of the consumer protocol."""
        logger.info("group %s: %s %s", group.group_id, member.member_id, why)
        committed = self._host.downgrade(group, member)
        if committed is None:
            records = remove_members(group, [member], image=self._host.image, now_ms=self._host.now_ms())
            committed = self.write(group, records)
            group.image = self._host.image
            self.forget_timers(group, [member.member_id])
        return committed

    # -- timeouts ----------------------------------------------------------------------------------------------------

    def expect(self, group: ConsumerGroup, member_id: str, kind: str, timeout_ms: int, *, restart: bool = True) -> None:
        """Start a timer that removes the member when it expires. restart: restart a timer that is running."""
        if not restart and (kind, member_id) in group.timers:
            return
        self.expect_no_longer(group, member_id, kind)
        if not group.is_dead:
            group.timers[(kind, member_id)] = self._host.call_later(
                timeout_ms, lambda: self._expired(group, member_id, kind, f"is removed ({kind} timeout)")
            )

    @staticmethod
    def expect_no_longer(group: ConsumerGroup, member_id: str, kind: str) -> None:
        """Cancel a timer of the member."""
        timer = group.timers.pop((kind, member_id), None)
        if timer is not None:
            timer.cancel()

    def _expired(self, group: ConsumerGroup, member_id: str, kind: str, why: str) -> None:
        group.timers.pop((kind, member_id), None)
        member = group.members.get(member_id)
        if group.is_dead or member is None:
            return
        try:
            self._remove(group, member, why)
        except GroupError as error:
            logger.debug("group %s: %s cannot be removed yet: %s", group.group_id, member_id, error)
            self.expect(group, member_id, kind, RETRY_MS)

    def forget_timers(self, group: ConsumerGroup, member_ids: Iterable[str]) -> None:
        """Cancel all timers of members that have been removed."""
        for member_id in member_ids:
            for kind in (SESSION, REBALANCE, JOIN, SYNC):
                self.expect_no_longer(group, member_id, kind)

    # -- loading and writing -----------------------------------------------------------------------------------------

    def loaded(self, group: ConsumerGroup) -> None:
        """Start the timers of a group that has been loaded from the log, or created."""
        for member in group.members.values():
            classic = member.classic
            timeout_ms = self._host.session_timeout_ms if classic is None else classic.session_timeout_ms
            self.expect(group, member.member_id, SESSION, timeout_ms)
            if classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                self.expect(group, member.member_id, REBALANCE, member.rebalance_timeout_ms)

    def unload(self, group: ConsumerGroup) -> None:
        """Mark the group as dead and cancel its timers: it is moved to another broker, deleted, or made classic."""
        group.is_dead = True
        for timer in group.timers.values():
            timer.cancel()
        group.timers.clear()

    def write(
        self, group: ConsumerGroup, records: Sequence[ConsumerRecord], before: Sequence[Encoded] = ()
    ) -> Committed | None:
        """Append records to the log, then apply them to the group. Raises GroupError if they cannot be appended."""
        committed = self._host.write(group.group_id, [*before, *(record.encoded() for record in records)])
        members_before = set(group.members)
        for record in records:
            group.apply(record)
        self.forget_timers(group, members_before - set(group.members))
        return committed


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

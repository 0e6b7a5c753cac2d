"""The consumer groups of a broker: finds, creates and migrates groups, and writes their records to the log.

A group id names one group, of either type, and the type may change:

- An empty classic group becomes a consumer group with the first ConsumerGroupHeartbeat of member epoch 0.
- A classic group of consumers is upgraded by such a heartbeat if `group.consumer.migration.policy` allows it.
- An empty consumer group becomes a classic group with JoinGroup.
- A consumer group is downgraded when its last member of the consumer protocol leaves and members of the classic
  protocol remain, if the policy allows it.

Committed offsets belong to the group id and are kept.
Source: GroupMetadataManager, GroupCoordinatorService.
"""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from broker.cluster.metadata_cache import MetadataCache
from broker.coordinator.classic.group import CONSUMER, Group, GroupState, join_error
from broker.coordinator.classic.groups import ClassicGroups
from broker.coordinator.classic.membership import Joining
from broker.coordinator.consumer.assignors import assignor_name
from broker.coordinator.consumer.classic_members import ConsumerClassic
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, NOTHING, Assignment, ConsumerMember
from broker.coordinator.consumer.membership import Client, Committed, ConsumerMembership, Encoded, Reply, refusal
from broker.coordinator.consumer.migration import downgraded, upgraded
from broker.coordinator.consumer.records import ConsumerRecord
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.consumer.update import GroupError
from broker.coordinator.consumer.validation import check_request
from broker.coordinator.coordinator_log import NO_OFFSET, Appended
from broker.coordinator.group_partitions import GroupPartitions, GroupsPartition
from broker.coordinator.group_records import group_key, group_value
from broker.coordinator.group_store import GroupStore, consumer_error
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.consumer_group_describe import Assignment as DescribedAssignment
from protocol.messages.consumer_group_describe import DescribedGroup
from protocol.messages.consumer_group_describe import Member as DescribedMember
from protocol.messages.consumer_group_describe import TopicPartitions as DescribedTopic
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The member types of ConsumerGroupDescribe."""


class ConsumerGroups:
    """See the module docstring. Implements `ConsumerHost` and `ClassicHost` for its groups."""

    def __init__(
        self,
        *,
        partitions: GroupPartitions,
        store: GroupStore,
        metadata: MetadataCache,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        call_later: Callable[[int, Callable[[], None]], TimerHandle],
        new_uuid: Callable[[], str],
        classic: ClassicGroups,
    ) -> None:
        self.now_ms = now_ms
        self.call_later = call_later
        self.new_member_id = new_uuid
        self._partitions = partitions
        self._store = store
        self._metadata = metadata
        self._config = config
        self._classic = classic
        self._image = TopicsImage(metadata.snapshot)
        self._last_write: dict[str, Committed] = {}
        names = (assignor_name(setting) for setting in config.group_consumer_assignors)
        self.assignors = tuple(dict.fromkeys(name for name in names if name is not None))
        policy = config.group_consumer_migration_policy.lower()
        self._can_upgrade = policy in ("upgrade", "bidirectional")
        self._can_downgrade = policy in ("downgrade", "bidirectional")
        self.membership = ConsumerMembership(self)
        self._members_of_classic = ConsumerClassic(self, self.membership)

    # -- the host of the groups --------------------------------------------------------------------------------------

    @property
    def image(self) -> TopicsImage:
        """See `ConsumerHost`."""
        if not self._image.is_of(self._metadata.snapshot):
            self._image = TopicsImage(self._metadata.snapshot)
        return self._image

    def write(self, group_id: str, records: Sequence[Encoded]) -> Committed | None:
        """See `ConsumerHost`."""
        return self._append(group_id, records) if records else self._last_write.get(group_id)

    def _append(self, group_id: str, records: Sequence[Encoded]) -> Committed:
        appended = self._store.store_records(group_id, records, _outcome_of_write)
        if appended.done() and appended.result().error and appended.result().base_offset == NO_OFFSET:
            raise GroupError(consumer_error(appended.result()), f"the change of group {group_id} could not be written")

        def forget(written: Committed) -> None:
            if self._last_write.get(group_id) is written:
                del self._last_write[group_id]

        self._last_write[group_id] = appended
        appended.add_done_callback(forget)
        return appended

    @property
    def default_assignor(self) -> str:
        """See `ConsumerHost`."""
        return self.assignors[0]

    @property
    def max_consumers(self) -> int:
        """See `ConsumerHost`."""
        return self._config.group_consumer_max_size

    @property
    def session_timeout_ms(self) -> int:
        """See `ConsumerHost`."""
        return self._config.group_consumer_session_timeout_ms

    @property
    def heartbeat_interval_ms(self) -> int:
        """See `ConsumerHost`."""
        return self._config.group_consumer_heartbeat_interval_ms

    def downgrade(self, group: ConsumerGroup, leaving: ConsumerMember) -> Committed | None:
        """See `ConsumerHost`."""
        size = len(group.members) - 1
        if not size or not self._may_downgrade(group, leaving, size):
            return None
        reason = f"its last member of the new protocol has left: {leaving.member_id}"
        return self._downgrade(group, leaving, None, group.tombstones(), reason)

    def downgrade_replaced(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        records: Sequence[ConsumerRecord],
    ) -> Committed | None:
        """See `ClassicHost`."""
        if not self._may_downgrade(group, old, len(group.members)):
            return None
        before = [*records, *group.tombstones({old.member_id: new.member_id})]
        return self._downgrade(group, old, new, before, None)

    def _may_downgrade(self, group: ConsumerGroup, leaving: ConsumerMember, size: int) -> bool:
        return (
            self._can_downgrade
            and leaving.member_id in group.members
            and group.are_all_classic_but(leaving.member_id)
            and size <= self._config.group_max_size
        )

    def _downgrade(
        self,
        group: ConsumerGroup,
        leaving: ConsumerMember,
        joining: ConsumerMember | None,
        before: Sequence[ConsumerRecord],
        reason: str | None,
    ) -> Committed | None:
        """Replace a consumer group by a classic group. Returns None if a member's metadata cannot be read.

        reason: why the classic group rebalances; None if it does not rebalance. Raises GroupError.
        """
        partition = self._partitions.of(group.group_id)
        if partition is None:
            raise GroupError(ErrorCode.NOT_COORDINATOR, f"group {group.group_id} is not coordinated here")
        try:
            classic = downgraded(group, leaving, joining, self.image, self.now_ms())
        except ProtocolError as error:
            logger.warning("group %s cannot become a classic group: %s", group.group_id, error)
            return None
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        written = (group_key(group.group_id), group_value(classic, assignments))
        committed = self._append(group.group_id, [*(record.encoded() for record in before), written])
        logger.info("group %s is a classic group again in generation %d", group.group_id, classic.generation)
        self.membership.unload(group)
        partition.groups[group.group_id] = classic
        with self._classic.step(classic) as step:
            step.loaded()
            if reason is not None:
                step.begin(reason)
        return committed

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(
        self, partition: GroupsPartition, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
        """Handle ConsumerGroupHeartbeat. Returns a coroutine if records have to be committed before the response."""
        try:
            check_request(request, version, self.assignors)
            reply = self._heartbeat(partition, request, client)
        except GroupError as refused:
            return refusal(refused.code, str(refused))
        return reply.response if reply.committed is None else self._when_committed(request.group_id, reply)

    async def _when_committed(
        self, group_id: str, reply: Reply[ConsumerGroupHeartbeatResponse]
    ) -> ConsumerGroupHeartbeatResponse:
        error = await _outcome(reply)
        return refusal(error, f"the change of group {group_id} is not committed") if error else reply.response

    def _heartbeat(
        self, partition: GroupsPartition, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> Reply[ConsumerGroupHeartbeatResponse]:
        found = partition.groups.get(request.group_id)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self.membership.leave(_consumer_group(found, request.group_id), request)
        if isinstance(found, ConsumerGroup):
            return self.membership.heartbeat(found, request, client, ())
        if request.member_epoch:
            raise _not_found(request.group_id, found)
        return self._begin(partition, found, request, client)

    def _begin(
        self,
        partition: GroupsPartition,
        classic: Group | None,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
    ) -> Reply[ConsumerGroupHeartbeatResponse]:
        """Handle the first heartbeat of a new group, of an empty classic group, or of a classic group to upgrade."""
        group_id = request.group_id
        before: list[Encoded] = []
        group = ConsumerGroup(group_id)
        if classic is not None:
            if classic.generation > 0:
                before.append((group_key(group_id), None))
            if classic.state is GroupState.EMPTY:
                group = ConsumerGroup(group_id, classic.offsets)
            else:
                group = self._upgraded(classic)
                before += [record.encoded() for record in group.records()]
        reply = self.membership.heartbeat(group, request, client, before)
        if classic is not None:
            with self._classic.step(classic) as step:
                step.unload(ErrorCode.REBALANCE_IN_PROGRESS)
        partition.groups[group_id] = group
        self.membership.loaded(group)
        return reply

    def _upgraded(self, classic: Group) -> ConsumerGroup:
        if (
            not self._can_upgrade
            or classic.state is GroupState.DEAD
            or classic.protocol_type != CONSUMER
            or len(classic.members) > self.max_consumers
        ):
            raise _not_found(classic.group_id, classic)
        try:
            group = upgraded(classic, self.image)
        except ProtocolError as error:
            logger.warning("group %s cannot become a consumer group: %s", classic.group_id, error)
            raise _not_found(classic.group_id, classic) from None
        logger.info("group %s becomes a consumer group in epoch %d", classic.group_id, group.epoch)
        return group

    # -- requests of the classic protocol ----------------------------------------------------------------------------

    def emptied(self, group: ConsumerGroup) -> Group:
        """Delete an empty consumer group, and return the empty classic group with its offsets. Raises GroupError."""
        self._append(group.group_id, [one.encoded() for one in group.tombstones()])
        self.membership.unload(group)
        classic = Group(group.group_id, self.now_ms())
        classic.offsets = group.offsets
        return classic

    async def join(self, group: ConsumerGroup, joining: Joining) -> JoinGroupResponse:
        """Handle JoinGroup."""
        try:
            reply = self._members_of_classic.join(group, joining)
        except GroupError as refused:
            return join_error(refused.code, joining.member_id)
        error = await _outcome(reply)
        return join_error(error, reply.response.member_id) if error else reply.response

    async def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """Handle SyncGroup."""
        try:
            reply = self._members_of_classic.sync(group, request)
        except GroupError as refused:
            return SyncGroupResponse(error_code=refused.code)
        error = await _outcome(reply)
        return SyncGroupResponse(error_code=error) if error else reply.response

    def classic_heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """Handle Heartbeat."""
        try:
            return self._members_of_classic.heartbeat(group, request)
        except GroupError as error:
            return error.code

    def leave(self, group: ConsumerGroup, identities: Iterable[MemberIdentity]) -> LeaveGroupResponse:
        """Handle LeaveGroup."""
        identities = list(identities)
        try:
            return self._members_of_classic.leave(group, identities)
        except GroupError as error:
            return LeaveGroupResponse(
                members=[
                    MemberResponse(
                        member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error.code
                    )
                    for one in identities
                ]
            )

    # -- describe ----------------------------------------------------------------------------------------------------

    def describe(self, group: ConsumerGroup) -> DescribedGroup:
        """Return a group with its members, and their current and target assignments without deleted topics."""
        image = self.image
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.preferred_assignor() or self.default_assignor,
            members=[
                DescribedMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    rack_id=member.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.topics),
                    subscribed_topic_regex=member.regex,
                    assignment=_described(member.assigned, image),
                    target_assignment=_described(group.targets.get(member.member_id, NOTHING), image),
                    member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
                )
                for member in group.members.values()
            ],
        )


def _outcome_of_write(appended: Appended) -> Appended:
    return appended


async def _outcome(reply: Reply[Any]) -> ErrorCode:
    """Wait until the records that a response depends on are committed or have failed, and return the error code."""
    return ErrorCode.NONE if reply.committed is None else consumer_error(await reply.committed)


def _described(assignment: Assignment, image: TopicsImage) -> DescribedAssignment:
    named: Mapping[bytes, str | None] = {topic_id: image.name(topic_id) for topic_id in assignment}
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopic(topic_id=topic_id, topic_name=name, partitions=sorted(assignment[topic_id]))
            for topic_id, name in named.items()
            if name is not None
        ]
    )


def _consumer_group(found: Group | ConsumerGroup | None, group_id: str) -> ConsumerGroup:
    if not isinstance(found, ConsumerGroup):
        raise _not_found(group_id, found)
    return found


def _not_found(group_id: str, found: Group | None) -> GroupError:
    what = "not found" if found is None else "is not a consumer group"
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")

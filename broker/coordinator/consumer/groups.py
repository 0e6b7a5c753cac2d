"""The consumer groups of a broker: finds, creates and migrates groups, and carries out the decisions of their steps.

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

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from broker.cluster.metadata_cache import MetadataCache
from broker.coordinator.classic.group import CONSUMER, Group, GroupState, join_error
from broker.coordinator.classic.groups import ClassicGroups
from broker.coordinator.classic.membership import Joining
from broker.coordinator.consumer.assignors import assignor_name
from broker.coordinator.consumer.classic_members import ConsumerClassic
from broker.coordinator.consumer.decision import Decision, Downgrade, apply_decision
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, NOTHING, Assignment
from broker.coordinator.consumer.membership import Client, ConsumerMembership, refusal
from broker.coordinator.consumer.migration import upgraded
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.consumer.update import GroupError
from broker.coordinator.consumer.validation import check_request
from broker.coordinator.coordinator_log import settled
from broker.coordinator.group_partitions import GroupPartitions, GroupsPartition
from broker.coordinator.group_records import Encoded, group_key
from broker.coordinator.group_store import GroupStore
from broker.coordinator.group_timers import CallLater, TimerChanges, TimerKey, change_timers
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
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

Committed = asyncio.Future[ErrorCode]
"""Done when the records are committed or have failed."""

RETRY_MS = 500
"""The wait before another attempt to remove a timed out member, if the log could not be written."""
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The member types of ConsumerGroupDescribe."""


class ConsumerGroups:
    """See the module docstring."""

    def __init__(
        self,
        *,
        partitions: GroupPartitions,
        store: GroupStore,
        metadata: MetadataCache,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        call_later: CallLater,
        new_uuid: Callable[[], str],
        classic: ClassicGroups,
    ) -> None:
        self._now_ms = now_ms
        self._call_later = call_later
        self._partitions = partitions
        self._store = store
        self._metadata = metadata
        self._config = config
        self._classic = classic
        self._image = TopicsImage(metadata.snapshot)
        self._last_write: dict[str, Committed] = {}
        """By group id: the last write, until it is committed or has failed."""
        names = (assignor_name(setting) for setting in config.group_consumer_assignors)
        self._assignors = tuple(dict.fromkeys(name for name in names if name is not None))
        self._membership = ConsumerMembership(
            config, default_assignor=self._assignors[0], image=self._topics, now_ms=now_ms, new_member_id=new_uuid
        )
        self._members_of_classic = ConsumerClassic(self._membership)

    def _topics(self) -> TopicsImage:
        if not self._image.is_of(self._metadata.snapshot):
            self._image = TopicsImage(self._metadata.snapshot)
        return self._image

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _carry_out(
        self, group: ConsumerGroup, decision: Decision[Any], also: Callable[[], None] | None = None
    ) -> Committed:
        """Write the records of a decision, and apply it as soon as they are in the log. also: called after that.

        Return the code for the client, once the records are committed or have failed. A decision without records waits
        for the last write of its group, because its answer may depend on it.
        """

        def in_log() -> None:
            self._apply(group, decision)
            if also is not None:
                also()

        batch = decision.batch
        if not batch:
            in_log()
            return self._last_write.get(group.group_id) or settled(ErrorCode.NONE)
        committed = self._store.store_records(group.group_id, batch, in_log)
        if not committed.done():
            self._last_write[group.group_id] = committed
            committed.add_done_callback(partial(self._forget_write, group.group_id))
        return committed

    def _forget_write(self, group_id: str, written: Committed) -> None:
        if self._last_write.get(group_id) is written:
            del self._last_write[group_id]

    def _apply(self, group: ConsumerGroup, decision: Decision[Any]) -> None:
        if decision.downgrade is not None:
            self._downgrade(group, decision.downgrade)
            return
        epoch = group.assignment_epoch
        self._set_timers(group, apply_decision(group, decision))
        if self._classic.watchers:
            self._classic.watchers.tell(group)
        if group.assignment_epoch != epoch:
            logger.info("group %s has %d members in epoch %d", group.group_id, len(group.members), group.epoch)

    def _downgrade(self, group: ConsumerGroup, downgrade: Downgrade) -> None:
        """Replace a consumer group by a classic group."""
        partition, classic = self._partitions.of(group.group_id), downgrade.group
        assert partition is not None
        logger.info("group %s is a classic group in generation %d", group.group_id, classic.generation)
        group.unload()
        partition.groups[group.group_id] = classic
        with self._classic.step(classic) as step:
            step.loaded()
            if downgrade.reason is not None:
                step.begin(downgrade.reason)

    def _set_timers(self, group: ConsumerGroup, changes: TimerChanges) -> None:
        change_timers(group.timers, changes, self._call_later, partial(self._expired, group))

    def _expired(self, group: ConsumerGroup, key: TimerKey) -> None:
        del group.timers[key]
        decision = self._membership.expired(group, *key)
        if decision is None:
            return
        committed = self._carry_out(group, decision)
        if committed.done() and committed.result():
            logger.debug("group %s: %s cannot be removed yet: %s", group.group_id, key[1], committed.result().name)
            self._set_timers(group, {key: RETRY_MS})

    def loaded(self, group: ConsumerGroup) -> None:
        """Start the timers of a group that has been loaded from the log, or created."""
        self._set_timers(group, self._membership.timers_of(group))

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(
        self, partition: GroupsPartition, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
        """Handle ConsumerGroupHeartbeat. Returns a coroutine if records have to be committed before the response."""
        also = None
        found = partition.groups.get(request.group_id)
        try:
            check_request(request, version, self._assignors)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                group = _consumer_group(found, request.group_id)
                decision = self._membership.leave(group, request)
            elif isinstance(found, ConsumerGroup):
                group = found
                decision = self._membership.heartbeat(group, request, client)
            elif request.member_epoch:
                raise _not_found(request.group_id, found)
            else:
                group, conversion = self._new_group(found, request.group_id)
                decision = self._membership.heartbeat(group, request, client, conversion)
                also = partial(self._begin, partition, found, group)
        except GroupError as refused:
            return refusal(refused.code, str(refused))
        committed = self._carry_out(group, decision, also)
        if not committed.done():
            return self._when_committed(group, committed, decision.response)
        return _answer(group, committed.result(), decision.response)

    async def _when_committed(
        self, group: ConsumerGroup, committed: Committed, response: ConsumerGroupHeartbeatResponse
    ) -> ConsumerGroupHeartbeatResponse:
        return _answer(group, await committed, response)

    def _new_group(self, classic: Group | None, group_id: str) -> tuple[ConsumerGroup, list[Encoded]]:
        """Return a consumer group for a new group id, or in place of a classic group, and the records of the change."""
        if classic is None:
            return ConsumerGroup(group_id), []
        conversion: list[Encoded] = [(group_key(group_id), None)] if classic.generation > 0 else []
        if classic.state is GroupState.EMPTY:
            return ConsumerGroup(group_id, classic.offsets), conversion
        group = self._upgraded(classic)
        return group, [*conversion, *(record.encoded() for record in group.records())]

    def _begin(self, partition: GroupsPartition, classic: Group | None, group: ConsumerGroup) -> None:
        """Take over a new group, in place of the classic group if there is one."""
        if classic is not None:
            with self._classic.step(classic) as step:
                step.unload(ErrorCode.REBALANCE_IN_PROGRESS)
        partition.groups[group.group_id] = group
        self.loaded(group)

    def _upgraded(self, classic: Group) -> ConsumerGroup:
        policy = self._config.group_consumer_migration_policy.lower()
        if (
            policy not in ("upgrade", "bidirectional")
            or classic.state is GroupState.DEAD
            or classic.protocol_type != CONSUMER
            or len(classic.members) > self._config.group_consumer_max_size
        ):
            raise _not_found(classic.group_id, classic)
        try:
            group = upgraded(classic, self._topics())
        except ProtocolError as error:
            logger.warning("group %s cannot become a consumer group: %s", classic.group_id, error)
            raise _not_found(classic.group_id, classic) from None
        logger.info("group %s becomes a consumer group in epoch %d", classic.group_id, group.epoch)
        return group

    # -- requests of the classic protocol ----------------------------------------------------------------------------

    def emptied(self, group: ConsumerGroup) -> Group | ErrorCode:
        """Replace an empty consumer group by an empty classic group with its offsets, or return the error."""
        classic = Group(group.group_id, self._now_ms())
        classic.offsets = group.offsets
        tombstones = [record.encoded() for record in group.tombstones()]
        committed = self._carry_out(group, Decision(None, conversion=tombstones, downgrade=Downgrade(classic, None)))
        return committed.result() or classic if committed.done() else classic

    async def join(self, group: ConsumerGroup, joining: Joining) -> JoinGroupResponse:
        """Handle JoinGroup."""
        try:
            decision = self._members_of_classic.join(group, joining)
        except GroupError as refused:
            return join_error(refused.code, joining.member_id)
        error = await self._carry_out(group, decision)
        return join_error(error, decision.response.member_id) if error else decision.response

    async def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """Handle SyncGroup."""
        try:
            decision = self._members_of_classic.sync(group, request)
        except GroupError as refused:
            return SyncGroupResponse(error_code=refused.code)
        error = await self._carry_out(group, decision)
        return SyncGroupResponse(error_code=error) if error else decision.response

    def classic_heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """Handle Heartbeat. It does not wait for earlier writes: the answer does not contain an assignment."""
        try:
            decision = self._members_of_classic.heartbeat(group, request)
        except GroupError as refused:
            return refused.code
        self._carry_out(group, decision)
        return decision.response

    async def leave(self, group: ConsumerGroup, identities: Iterable[MemberIdentity]) -> LeaveGroupResponse:
        """Handle LeaveGroup."""
        decision = self._members_of_classic.leave(group, identities)
        error = await self._carry_out(group, decision)
        return LeaveGroupResponse(error_code=error) if error else decision.response

    # -- describe ----------------------------------------------------------------------------------------------------

    def describe(self, group: ConsumerGroup) -> DescribedGroup:
        """Return a group with its members, and their current and target assignments without deleted topics."""
        image = self._topics()
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.preferred_assignor() or self._assignors[0],
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


def _answer(
    group: ConsumerGroup, code: ErrorCode, response: ConsumerGroupHeartbeatResponse
) -> ConsumerGroupHeartbeatResponse:
    return refusal(code, f"the change of group {group.group_id} is not committed") if code else response


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

"""Test doubles around a consumer group: topics, a manual clock, and a log that may refuse writes or be slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from broker.cluster.metadata_cache import Snapshot, TopicMetadata
from broker.coordinator.classic.membership import Joining
from broker.coordinator.consumer.classic_members import ConsumerClassic
from broker.coordinator.consumer.decision import Decision, apply_decision
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.groups import RETRY_MS
from broker.coordinator.consumer.membership import Client, ConsumerMembership
from broker.coordinator.consumer.records import ConsumerRecord, read_record
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.consumer.update import GroupError
from broker.coordinator.group_timers import TimerChanges, TimerKey, change_timers
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.update_metadata import UpdateMetadataPartitionState
from support.virtual_host import VirtualHost

SESSION_MS = 45_000
REBALANCE_MS = 60_000
Owned = Mapping[str, Sequence[int]]
R = TypeVar("R")


def topic_id(name: str) -> bytes:
    """The id of a topic of an image."""
    return name.encode().ljust(16, b"-")


def image(topics: Mapping[str, int]) -> TopicsImage:
    """The cluster's topics: partitions by name."""
    described = {
        name: TopicMetadata(
            name,
            topic_id(name),
            {one: UpdateMetadataPartitionState(partition_index=one, replicas=[0]) for one in range(partitions)},
        )
        for name, partitions in topics.items()
    }
    names = {topic_id(name): name for name in topics}
    return TopicsImage(Snapshot(0, MappingProxyType({}), described, names))


class ConsumerTable(VirtualHost):
    """One consumer group, its settings and clock, and the requests of its members, answered at once."""

    def __init__(self, topics: Mapping[str, int] = MappingProxyType({}), *, max_consumers: int = 1 << 31) -> None:
        super().__init__()
        self.image = image(topics)
        self.group_consumer_session_timeout_ms = SESSION_MS
        self.group_consumer_heartbeat_interval_ms = 5_000
        self.group_consumer_max_size = max_consumers
        self.refuses = False
        self.downgrades = False
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batches = 0
        self.group = ConsumerGroup("g")
        self.membership = ConsumerMembership(
            self,
            default_assignor="uniform",
            image=lambda: self.image,
            now_ms=self.now_ms,
            new_member_id=self.new_uuid,
        )
        self.classic = ConsumerClassic(self.membership)
        self.written: Callable[[], None] = lambda: None
        """Called after every step of the group."""

    @property
    def group_consumer_migration_policy(self) -> str:
        return "downgrade" if self.downgrades else "disabled"

    # -- decisions ---------------------------------------------------------------------------------------------------

    def carry_out(self, decision: Decision[R]) -> R:
        """Write the records of a decision, and apply it."""
        batch = decision.batch
        if batch:
            if self.refuses:
                raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "refused")
            self.log += batch
            self.batches += 1
        if decision.downgrade is not None:
            self.group.unload()
        else:
            self.set_timers(apply_decision(self.group, decision))
        return decision.response

    def set_timers(self, changes: TimerChanges) -> None:
        """Set and cancel timers of the group."""
        change_timers(self.group.timers, changes, self.call_later, partial(self._expired, self.group))

    def _expired(self, group: ConsumerGroup, key: TimerKey) -> None:
        del group.timers[key]
        decision = self.membership.expired(group, *key)
        try:
            if decision is not None:
                self.carry_out(decision)
        except GroupError:
            self.set_timers({key: RETRY_MS})

    def load(self, group: ConsumerGroup) -> None:
        """Replace the group by another one, for example one that was replayed."""
        self.group.unload()
        self.group = group
        self.set_timers(self.membership.timers_of(group))

    # -- what the log says -------------------------------------------------------------------------------------------

    def records(self) -> list[ConsumerRecord]:
        """All written records."""
        return [read_record(key, value) for key, value in self.log]

    def replayed(self) -> ConsumerGroup:
        """The group as replayed from the compacted log: the last record of each key."""
        group = ConsumerGroup("g")
        last = {key: place for place, (key, _) in enumerate(self.log)}
        for place, record in enumerate(self.records()):
            if last[self.log[place][0]] == place:
                group.apply(record)
        return group

    # -- requests ----------------------------------------------------------------------------------------------------

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Owned | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int | None = None,
        rack_id: str | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat, answered at once; a refusal is an answer with a code."""
        joins = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance_id,
            rack_id=rack_id,
            rebalance_timeout_ms=REBALANCE_MS if joins and rebalance_timeout_ms is None else rebalance_timeout_ms or -1,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None and not joins
            else [
                TopicPartitions(topic_id=topic_id(name), partitions=list(some)) for name, some in (owned or {}).items()
            ],
        )
        try:
            if epoch < 0:
                answer = self.carry_out(self.membership.leave(self.group, request))
            else:
                decision = self.membership.heartbeat(self.group, request, Client("c", "/127.0.0.1"))
                answer = self.carry_out(decision)
        except GroupError as error:
            return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error))
        self.written()
        return answer

    def join_classic(self, member_id: str, metadata: bytes, **changes: object) -> JoinGroupResponse:
        """JoinGroup of a member of the classic protocol, answered at once."""
        joining = Joining(
            member_id=member_id,
            group_instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", metadata),),
            requires_member_id=False,
            can_skip_assignment=True,
            reason=None,
        )._replace(**changes)
        try:
            answer = self.carry_out(self.classic.join(self.group, joining))
        except GroupError as error:
            return JoinGroupResponse(error_code=error.code)
        self.written()
        return answer

    def sync_classic(self, member_id: str, generation: int, **changes: object) -> SyncGroupResponse:
        """SyncGroup of a member of the classic protocol."""
        claims = {"protocol_type": "consumer", "protocol_name": "range"} | changes
        request = SyncGroupRequest(member_id=member_id, generation_id=generation, **claims)
        try:
            return self.carry_out(self.classic.sync(self.group, request))
        except GroupError as error:
            return SyncGroupResponse(error_code=error.code)

    def beat_classic(self, member_id: str, generation: int) -> ErrorCode:
        """Heartbeat of a member of the classic protocol."""
        try:
            request = HeartbeatRequest(member_id=member_id, generation_id=generation)
            return self.carry_out(self.classic.heartbeat(self.group, request))
        except GroupError as error:
            return error.code


def shares(answer: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment in a heartbeat's answer, by topic name; None if it has none."""
    if answer.assignment is None:
        return None
    return {one.topic_id.rstrip(b"-").decode(): list(one.partitions) for one in answer.assignment.topic_partitions}

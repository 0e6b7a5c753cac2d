"""The group coordinator: finds the group of a request and handles the requests of members and administrators.

Every operation first checks whether this broker coordinates the group. The errors are INVALID_GROUP_ID,
COORDINATOR_NOT_AVAILABLE while the broker stops, COORDINATOR_LOAD_IN_PROGRESS while the group's partition is being
read, and NOT_COORDINATOR. A change is answered when it is committed, see coordinator_log.py. `OffsetManager` handles
offsets and the deletion of groups, `ConsumerGroups` handles consumer groups (KIP-848).
Source: GroupCoordinator and GroupCoordinatorAdapter of 3.9.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from typing import Any

from broker.cluster.metadata_cache import MetadataCache
from broker.coordinator.classic.group import CONSUMER, Group, GroupState, join_error
from broker.coordinator.classic.groups import ClassicGroups
from broker.coordinator.classic.membership import Joining
from broker.coordinator.consumer.group import AnyGroup, ConsumerGroup, ConsumerGroupState
from broker.coordinator.consumer.groups import ConsumerGroups
from broker.coordinator.consumer.membership import Client, refusal
from broker.coordinator.coordinator_log import CoordinatorLog, settled
from broker.coordinator.group_partitions import GroupPartitions, GroupsPartition
from broker.coordinator.group_store import GroupStore
from broker.coordinator.offset_manager import OffsetManager
from broker.settings.config import BrokerConfig
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol.messages.list_groups import ListedGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_APIS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
"""Those of the consumer group protocol (KIP-848)."""
REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols"
FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


class GroupCoordinator:
    """See the module docstring. It coordinates only while `run` runs."""

    def __init__(
        self,
        log: CoordinatorLog,
        *,
        config: BrokerConfig,
        metadata: MetadataCache,
        brokers_without: Callable[..., list[int]],
        now_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        """brokers_without: returns the other brokers that do not serve some APIs, see `PeerApis`."""
        self.now_ms = now_ms
        self._config = config
        self._brokers_without = brokers_without
        self._random = rng
        self._store = GroupStore(log, config, now_ms)
        self._classic = ClassicGroups(
            config, now_ms=now_ms, new_uuid=self._new_uuid, call_later=call_later, store=self._store.store_group
        )
        self.watchers = self._classic.watchers
        """Of groups of both protocols."""
        self._partitions = GroupPartitions(
            log,
            now_ms=now_ms,
            start_task=self._start_task,
            loaded=self._loaded,
            unload=self._unload,
        )
        self._consumers = ConsumerGroups(
            partitions=self._partitions,
            store=self._store,
            metadata=metadata,
            config=config,
            now_ms=now_ms,
            call_later=call_later,
            new_uuid=self._new_uuid,
            classic=self._classic,
        )
        self.offsets = OffsetManager(self._partitions, self._store, self._classic, config, now_ms)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Coordinate until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                self._partitions.listen()
                tasks.create_task(self.offsets.run())
        finally:
            self._partitions.close()

    def _loaded(self, group: AnyGroup) -> None:
        if isinstance(group, ConsumerGroup):
            self._consumers.loaded(group)
        else:
            with self._classic.step(group) as step:
                step.loaded()

    def _unload(self, group: AnyGroup) -> None:
        """Unload a group that is deleted or that this broker stops coordinating: answer its waiting requests."""
        if isinstance(group, ConsumerGroup):
            group.unload()
        else:
            with self._classic.step(group) as step:
                step.unload()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    # -- lookup ------------------------------------------------------------------------------------------------------

    def find(self, group_id: str, *, may_be_empty: bool = False) -> GroupsPartition | ErrorCode:
        """See `GroupPartitions.find`."""
        return self._partitions.find(group_id, may_be_empty=may_be_empty)

    # -- members -----------------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, version: int, client: Client
    ) -> asyncio.Future[JoinGroupResponse] | Coroutine[Any, Any, JoinGroupResponse]:
        """Handle a JoinGroup. The response is there when the join phase of the rebalance has ended."""
        member_id = request.member_id
        partition = self.find(request.group_id)
        if isinstance(partition, ErrorCode):
            return settled(join_error(partition, member_id))
        config = self._config
        timeout_ms = request.session_timeout_ms
        if not config.group_min_session_timeout_ms <= timeout_ms <= config.group_max_session_timeout_ms:
            return settled(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, member_id))
        protocols = {protocol.name: bytes(protocol.metadata) for protocol in reversed(request.protocols)}
        joining = Joining(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=client.client_id,
            client_host=client.host,
            rebalance_timeout_ms=timeout_ms if version == 0 else request.rebalance_timeout_ms,
            session_timeout_ms=timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(reversed(protocols.items())),  # if a name occurs twice, the first entry counts
            requires_member_id=version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED and request.group_instance_id is None,
            can_skip_assignment=version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
            reason=request.reason,
        )
        group = partition.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._consumers.join(group, joining)
        if not isinstance(group, Group):
            if member_id:
                return settled(join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            emptied = Group(request.group_id, self.now_ms()) if group is None else self._consumers.emptied(group)
            if isinstance(emptied, ErrorCode):
                return settled(join_error(emptied, member_id))
            group = partition.groups[request.group_id] = emptied
        waiter: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        with self._classic.step(group) as step:
            step.join(joining, waiter)
        return waiter

    def sync(
        self, request: SyncGroupRequest
    ) -> asyncio.Future[SyncGroupResponse] | Coroutine[Any, Any, SyncGroupResponse]:
        """Handle a SyncGroup. The response is there when the leader's assignment is committed."""
        partition = self.find(request.group_id)
        if isinstance(partition, ErrorCode):
            # The previous coordinator's rebalance is lost. Members join again without looking for the coordinator.
            is_loading = partition is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return settled(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_loading else partition))
        group = partition.groups.get(request.group_id)
        if group is None:
            return settled(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        if isinstance(group, ConsumerGroup):
            return self._consumers.sync(group, request)
        waiter: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        with self._classic.step(group) as step:
            step.sync(request, waiter)
        return waiter

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Handle a Heartbeat. While the partition of the group is loading, the answer is NONE."""
        partition = self.find(request.group_id)
        if isinstance(partition, ErrorCode):
            return ErrorCode.NONE if partition is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else partition
        group = partition.groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            return self._consumers.classic_heartbeat(group, request)
        with self._classic.step(group) as step:
            return step.heartbeat(request)

    async def leave(self, group_id: str, identities: Iterable[MemberIdentity]) -> LeaveGroupResponse:
        """Handle a LeaveGroup of one or more members.

        A classic group answers at once, as in Kafka: it has no record of this change, only of the next generation.
        """
        partition = self.find(group_id)
        if isinstance(partition, ErrorCode):
            return LeaveGroupResponse(error_code=partition)
        group = partition.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return await self._consumers.leave(group, identities)
        if group is not None and group.state is GroupState.DEAD:
            return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return LeaveGroupResponse(
            members=[
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=self._leave(group, identity),
                )
                for identity in identities
            ]
        )

    def _leave(self, group: Group | None, identity: MemberIdentity) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        with self._classic.step(group) as step:
            return step.leave(identity)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
        """Handle a ConsumerGroupHeartbeat. Return the response, or a coroutine if records must be committed first."""
        if not self.serves_consumer_protocol:
            return refusal(ErrorCode.UNSUPPORTED_VERSION, "the consumer group protocol is not enabled here")
        partition = self.find(request.group_id)
        if partition is ErrorCode.INVALID_GROUP_ID:
            return refusal(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
        if isinstance(partition, ErrorCode):
            return refusal(partition)
        if not request.member_epoch and not _is_in_use(partition.groups.get(request.group_id)):
            lacking = self._brokers_that_lack_consumer_protocol()
            if lacking:
                return refusal(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"no new consumer groups: brokers {lacking} do not have the consumer group protocol",
                )
        return self._consumers.heartbeat(partition, request, version, client)

    @property
    def serves_consumer_protocol(self) -> bool:
        """True if group.coordinator.rebalance.protocols contains `consumer`."""
        return "consumer" in self._config.group_coordinator_rebalance_protocols

    @property
    def offers_consumer_protocol(self) -> bool:
        """Whether clients are to know that this broker serves the consumer group protocol.

        If another broker does not have the protocol, only a broker that already coordinates members offers it: they
        must be able to reconnect.
        """
        if not self.serves_consumer_protocol:
            return False
        if not self._brokers_that_lack_consumer_protocol():
            return True
        return any(map(_is_in_use, self.all_groups()))

    def _brokers_that_lack_consumer_protocol(self) -> list[int]:
        """Return the ids of the brokers; none if the settings of this broker ask for the protocol."""
        return [] if REBALANCE_PROTOCOLS in self._config.static else self._brokers_without(*CONSUMER_PROTOCOL_APIS)

    # -- describe and list -------------------------------------------------------------------------------------------

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """Describe a consumer group: its members with their current and target assignments."""
        partition = self.find(group_id) if self.serves_consumer_protocol else ErrorCode.UNSUPPORTED_VERSION
        if isinstance(partition, ErrorCode):
            return DescribedConsumerGroup(group_id=group_id, error_code=partition)
        group = partition.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            what = "not found" if group is None else "is not a consumer group"
            return DescribedConsumerGroup(
                group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"group {group_id} {what}"
            )
        return self._consumers.describe(group)

    def describe(self, group_id: str) -> DescribedGroup:
        """Describe a classic group: its members, and in state Stable their metadata and assignments.

        An unknown group, or a consumer group, is described as Dead.
        """
        partition = self.find(group_id, may_be_empty=True)
        if isinstance(partition, ErrorCode):
            return DescribedGroup(group_id=group_id, error_code=partition)
        group = partition.groups.get(group_id)
        if group is None or isinstance(group, ConsumerGroup):
            return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        protocol = group.protocol_name if group.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=protocol or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.metadata(protocol),
                    member_assignment=b"" if protocol is None else member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def list(self, states: Collection[str], types: Collection[str]) -> tuple[ErrorCode, list[ListedGroup]]:
        """Return the groups in one of these states and of one of these types, regardless of case.

        An empty collection does not filter. The code is COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.
        """
        if self._partitions.is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted_states = {state.lower() for state in states}
        wanted_types = {name.lower() for name in types}
        groups = []
        for group in self.all_groups():
            state = group.state.value
            if (not wanted_states or state.lower() in wanted_states) and (
                not wanted_types or group.group_type in wanted_types
            ):
                protocol_type = CONSUMER if isinstance(group, ConsumerGroup) else group.protocol_type or ""
                groups.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=protocol_type,
                        group_state=state,
                        group_type=group.group_type,
                    )
                )
        loading = self._partitions.is_loading
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NONE, groups

    def count_by_state(self) -> dict[str, int]:
        """Return the number of groups in each state, for metrics."""
        counts = dict.fromkeys([state.value for kind in (GroupState, ConsumerGroupState) for state in kind], 0)
        for group in self.all_groups():
            counts[group.state.value] += 1
        return counts

    def all_groups(self) -> Iterator[AnyGroup]:
        """Return the groups of all loaded partitions."""
        return (group for _, group in self._partitions.all_groups())


def _is_in_use(group: AnyGroup | None) -> bool:
    """Whether this is a consumer group with members."""
    return isinstance(group, ConsumerGroup) and bool(group.members)


def call_later(delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
    """Call `callback` after a delay."""
    return asyncio.get_running_loop().call_later(max(delay_ms, 0) / 1000, callback)

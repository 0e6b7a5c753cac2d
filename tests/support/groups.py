"""Members of classic groups that send plain requests, and commits of offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.versioned import encode_versioned
from support.deadlines import DEADLINE_S

RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
Ask = Callable[[Message, int], Awaitable[Any]]


async def find_group(ask: Ask, group_id: str) -> None:
    """Wait until the group has a coordinator that has loaded it."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = await ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]), 4)
        code = found.coordinators[0].error_code
        if not code:
            described = await ask(DescribeGroupsRequest(groups=[group_id]), 5)
            code = described.groups[0].error_code
        if code not in RETRIABLE:
            assert code == 0, ErrorCode(code)
            return
        assert time.monotonic() < deadline, ErrorCode(code)
        await asyncio.sleep(0.01)


def subscription(*topics: str) -> bytes:
    """A consumer's metadata."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 0)


class GroupMember:
    """One member: its requests, in any version."""

    def __init__(
        self, ask: Ask, group_id: str, *, instance_id: str | None = None, topics: tuple[str, ...] = ()
    ) -> None:
        self.ask = ask
        self.group_id = group_id
        self.instance_id = instance_id
        self.metadata = subscription(*topics)
        self.session_timeout_ms = 10_000
        self.rebalance_timeout_ms = 20_000
        self.protocol_type = "consumer"
        self.member_id = ""
        self.generation = -1

    async def join_once(self, version: int = 9) -> Any:
        """One JoinGroup."""
        rebalance = {"rebalance_timeout_ms": self.rebalance_timeout_ms} if version >= 1 else {}
        instance = {"group_instance_id": self.instance_id} if version >= 5 else {}
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.metadata)],
            **rebalance,
            **instance,
        )
        answer = await self.ask(request, version)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def join(self, version: int = 9) -> Any:
        """Send JoinGroup with the id that the coordinator gives. Return the answer, which must not be an error."""
        answer = await self.join_once(version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = await self.join_once(version)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return answer

    async def sync(self, assignments: Mapping[str, bytes] | None = None, version: int = 5) -> Any:
        """One SyncGroup."""
        newer = {"protocol_type": self.protocol_type, "protocol_name": "range"} if version >= 5 else {}
        instance = {"group_instance_id": self.instance_id} if version >= 3 else {}
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
            **newer,
            **instance,
        )
        return await self.ask(request, version)

    async def settle(self, version: int = 9) -> None:
        """Join as the only member and get an assignment."""
        await self.join(version)
        answer = await self.sync({self.member_id: b"mine"}, min(version, 5))
        assert (answer.error_code, answer.assignment) == (0, b"mine")

    async def heartbeat(self, version: int = 4) -> int:
        """One Heartbeat: its error code."""
        instance = {"group_instance_id": self.instance_id} if version >= 3 else {}
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id, **instance
        )
        return int((await self.ask(request, version)).error_code)

    async def until_rebalance(self) -> None:
        """Send heartbeats until one says that the group rebalances."""
        deadline = time.monotonic() + DEADLINE_S
        while (code := await self.heartbeat()) != ErrorCode.REBALANCE_IN_PROGRESS:
            assert code == 0, ErrorCode(code)
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    async def leave(self, version: int = 5) -> int:
        """One LeaveGroup: its error code."""
        if version < 3:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
            return int((await self.ask(request, version)).error_code)
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answer = await self.ask(LeaveGroupRequest(group_id=self.group_id, members=[identity]), version)
        return int(answer.error_code or answer.members[0].error_code)

    async def commit(self, topic: str, offset: int, partition: int = 0, **fields: Any) -> int:
        """One OffsetCommit of this member."""
        mine = {"member_id": self.member_id, "generation": self.generation}
        return await commit(self.ask, self.group_id, topic, offset, partition, **mine | fields)


async def commit(
    ask: Ask,
    group_id: str,
    topic: str,
    offset: int,
    partition: int = 0,
    *,
    metadata: str | None = "",
    member_id: str = "",
    generation: int = -1,
    version: int = 8,
    **fields: Any,
) -> int:
    """One OffsetCommit of one partition: its error code."""
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=metadata)
    if version >= 6:
        one.committed_leader_epoch = fields.pop("leader_epoch", -1)
    if version == 1:
        one.commit_timestamp = fields.pop("timestamp", -1)
    request = OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[one])], **fields
    )
    if version >= 1:
        request.generation_id_or_member_epoch, request.member_id = generation, member_id
    answer = await ask(request, version)
    return int(answer.topics[0].partitions[0].error_code)


async def fetch_offsets(
    ask: Ask, group_id: str, topic: str | None, *partitions: int, version: int = 9, require_stable: bool = False
) -> tuple[int, dict[int, tuple[int, int, str, int]]]:
    """OffsetFetch: the group's error code, and by partition (offset, leader epoch, metadata, error code)."""
    stable = {"require_stable": require_stable} if version >= 7 else {}
    if version >= 8:
        topics = None if topic is None else [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        answer = (await ask(OffsetFetchRequest(groups=[group], **stable), version)).groups[0]
    else:
        old = None if topic is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
        answer = await ask(OffsetFetchRequest(group_id=group_id, topics=old, **stable), version)
    return answer.error_code, {
        one.partition_index: (one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code)
        for found in answer.topics
        for one in found.partitions
    }

"""Members of consumer groups (KIP-848) that send plain requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from support.deadlines import DEADLINE_S
from support.groups import Ask

Owned = Mapping[bytes, Sequence[int]]


class ConsumerMember:
    """One member, which applies each assignment at once."""

    def __init__(self, ask: Ask, group_id: str, member_id: str, *topics: str, instance_id: str | None = None) -> None:
        self.ask = ask
        self.group_id = group_id
        self.member_id = member_id
        self.topics = list(topics)
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.regex: str | None = None
        self.assignor: str | None = None
        self.interval_ms = 0

    async def beat(self, version: int = 1, **fields: Any) -> Any:
        """Send one ConsumerGroupHeartbeat with any of its fields."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=self.topics,
            server_assignor=self.assignor,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in self.owned.items()
            ],
        )
        if version >= 1:
            request.subscribed_topic_regex = self.regex
        for name, value in fields.items():
            setattr(request, name, value)
        answer = await self.ask(request, version)
        if not answer.error_code:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
            self.interval_ms = answer.heartbeat_interval_ms
            if answer.assignment is not None:
                self.owned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        return answer

    async def join(self, version: int = 1) -> Any:
        """Send the first heartbeat, which must succeed."""
        answer = await self.beat(version)
        assert answer.error_code == 0, answer
        return answer

    async def leave(self, epoch: int = -1) -> Any:
        """Send the last heartbeat."""
        return await self.beat(member_epoch=epoch, topic_partitions=None)

    @property
    def partitions(self) -> list[int]:
        """The partitions that it owns, of any topic."""
        return sorted(number for numbers in self.owned.values() for number in numbers)


async def settle(*members: ConsumerMember) -> None:
    """Let members send heartbeats until each of them has reached its target assignment."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        for member in members:
            assert (await member.beat()).error_code == 0
        found = await describe(members[0].ask, members[0].group_id)
        if found.group_state == "Stable" and all(member.epoch == found.group_epoch for member in members):
            return
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.01)


async def describe(ask: Ask, group_id: str, version: int = 1) -> Any:
    """One group, described."""
    return (await ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), version)).groups[0]

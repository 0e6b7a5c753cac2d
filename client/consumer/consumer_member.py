"""A member of a group of the new protocol (KIP-848): one request, ConsumerGroupHeartbeat.

The coordinator assigns the partitions. A heartbeat reports the changes of the member, the response contains the target
assignment. The member gives up the partitions that are not in it, reports that in the next heartbeat, and starts
reading the new ones. Other members do not wait for it.
"""

import asyncio
import uuid
from collections.abc import Collection
from contextlib import suppress
from typing import Final, Literal

from client.consumer.member import GroupMember, MemberParts, first_of
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
# A static member leaves for a while: the next process with its instance id gets its partitions.
_STATIC_LEAVE_EPOCH: Final = -2
_FIRST_VERSION_WITH_OWN_IDS: Final = 1
_FIRST_VERSION_WITH_REGEX: Final = 1
_GIVEN_UP: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH))

Outcome = Literal["lost", "stuck"]


class ConsumerMember(GroupMember):
    """See the module."""

    def __init__(self, parts: MemberParts) -> None:
        super().__init__(parts)
        # Set to send the next heartbeat before the interval ends.
        self._news = asyncio.Event()
        self._target_changed = asyncio.Event()
        # The target assignment as (topic id, partition number), as the name of a topic may not be known yet.
        self._target: set[tuple[bytes, int]] = set()
        # What this member has reported since it joined; None: nothing.
        self._told_topics: list[str] | None = None
        self._told_owned: list[TopicPartition] | None = None

    async def _take_part(self) -> None:
        await self._partitions.lose_all()  # a joining member owns no partitions
        self._generation_id = _JOIN_EPOCH
        self._told_topics = self._told_owned = None
        self._target = set()
        self._target_changed.clear()
        outcome = await first_of(self._follow(), self._beat())
        if outcome == "stuck":
            await self._leave_stuck()
        else:
            member_id = self._member_id
            self._forget()
            self._member_id = member_id  # a member keeps its id (KIP-848)
            await self._partitions.lose_all()

    def metadata_changed(self) -> None:
        """Report new topics, and resolve the topic ids of the assignment again."""
        if self._told_topics is not None and sorted(self._topics()) != self._told_topics:
            self._news.set()
        self._target_changed.set()

    # ---- the assignment

    async def _follow(self) -> Outcome:
        """Apply each new target assignment until the group has removed this member."""
        while True:
            await self._target_changed.wait()
            self._target_changed.clear()
            target = self._named_target()
            await self._partitions.take_away(set(self._partitions.owned) - target)
            self._news.set()
            try:
                await self._partitions.give(target)
            except KafkaError as error:
                if error.code in _GIVEN_UP:  # OffsetFetch got the error before the heartbeat
                    return "lost"
                raise
            self._news.set()

    def _named_target(self) -> set[TopicPartition]:
        known = self._cluster.metadata.topics_by_id
        named = {TopicPartition(known[topic_id].name, number) for topic_id, number in self._target if topic_id in known}
        if len(named) < len(self._target):
            self._cluster.request_refresh()
        return named

    # ---- heartbeats

    async def _beat(self) -> Outcome:
        retries = self._cluster.retries()
        while True:
            self._news.clear()
            if self._is_stuck():
                return "stuck"
            self._look_for_topics()
            try:
                given_up = await self._whole_heartbeat()
            except KafkaError as error:
                self._heartbeat_failed(error)
                self._told_topics = self._told_owned = None  # report everything again: it is unknown what has arrived
                await retries.wait()
                continue
            retries.succeeded()
            if given_up:
                return "lost"
            try:
                async with asyncio.timeout(min(self._interval_s, self._options.max_poll_interval_s / 4)):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _whole_heartbeat(self) -> bool:
        """As `_heartbeat`, and if the membership ends meanwhile: the last commit needs the epoch of the response."""
        heartbeat = asyncio.ensure_future(self._heartbeat())
        try:
            await asyncio.wait([heartbeat])
        except asyncio.CancelledError:
            with suppress(KafkaError):
                await heartbeat
            raise
        return heartbeat.result()

    async def _heartbeat(self) -> bool:
        """Report changes and receive the target assignment. True if the group has removed this member."""
        options = self._options
        connection = await self._coordinator.connection()
        version = connection.common_version(ConsumerGroupHeartbeatRequest)
        if not self._member_id and version >= _FIRST_VERSION_WITH_OWN_IDS:
            self._member_id = str(uuid.uuid4())
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._generation_id
        )
        topics = sorted(self._topics())
        owned = sorted(self._partitions.owned)
        is_full = self._told_topics is None or self._generation_id == _JOIN_EPOCH
        if is_full:
            request.instance_id = options.group_instance_id
            request.rack_id = options.client_rack or None
            request.rebalance_timeout_ms = round(options.max_poll_interval_ms)
            request.server_assignor = options.group_remote_assignor
        if is_full or topics != self._told_topics:
            request.subscribed_topic_names = topics
            if version >= _FIRST_VERSION_WITH_REGEX:
                request.subscribed_topic_regex = ""  # none: the client resolves patterns itself
        if is_full or owned != self._told_owned:
            request.topic_partitions = self._by_topic_id([] if self._generation_id == _JOIN_EPOCH else owned)
        response = await connection.call(
            request, ConsumerGroupHeartbeatResponse, version, timeout_s=options.request_timeout_s
        )
        if response.error_code:
            if response.error_code in _GIVEN_UP:
                return True
            raise error_for(response.error_code, response.error_message, context=f"group {self._group_id}")
        self._told_topics, self._told_owned = topics, owned
        self._member_id = response.member_id or self._member_id
        is_joining = self._generation_id == _JOIN_EPOCH
        self._generation_id = response.member_epoch
        if is_joining:
            self._has_joined()
        self._interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            given = response.assignment.topic_partitions
            self._target = {(one.topic_id, number) for one in given for number in one.partitions}
            self._target_changed.set()
        return False

    def _by_topic_id(self, partitions: Collection[TopicPartition]) -> list[TopicPartitions]:
        known = self._cluster.metadata.topics
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        return [
            TopicPartitions(topic_id=known[name].topic_id, partitions=numbers)
            for name, numbers in topics.items()
            if name in known
        ]

    async def leave(self) -> None:
        """Leave the group; a static member leaves for a while, so that its next process can take its place."""
        if not self._member_id or self._generation_id <= 0:
            return
        static = self._options.group_instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=_STATIC_LEAVE_EPOCH if static else _LEAVE_EPOCH,
            instance_id=self._options.group_instance_id,
        )
        connection = await self._coordinator.connection()
        await connection.call(request, ConsumerGroupHeartbeatResponse, timeout_s=self._options.request_timeout_s)

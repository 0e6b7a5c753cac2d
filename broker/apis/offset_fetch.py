"""OffsetFetch: the committed offsets of groups (several groups at once since KIP-709).

With `require_stable` (KIP-447), a partition has no offset while a commit of an open transaction is pending for it.
Version 0 is older than groups: it reads the offsets that version 0 of OffsetCommit stored in the registry.

While the registry does not answer, another broker may have become the coordinator. So this one first waits for a word
of its followers: with old offsets, a transactional consumer would process records again that it has processed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple

from broker.coordinator.offset_manager import Committer
from broker.coordinator.offsets import CommittedOffset, TopicPartition
from broker.coordinator.still_coordinator import is_still_coordinator
from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.sentinels import NO_EPOCH

NONE_COMMITTED = -1
FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8

Found = CommittedOffset | ErrorCode | None


class _Fields(NamedTuple):
    """The fields of a partition in the answer, for all versions."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str
    error_code: int


class OffsetFetchHandler(Handler[OffsetFetchRequest, OffsetFetchResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: OffsetFetchRequest, context: RequestContext
    ) -> OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]:
        """See the module docstring. Null topics mean all partitions with committed offsets."""
        if context.api_version == 0:
            return self._from_registry(request)
        if not self._services.certainty.is_sure:
            return self._when_confirmed(request, context)
        return self._from_groups(request, context)

    async def _when_confirmed(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        log = self._services.coordination.group_log
        groups = dict.fromkeys(group.group_id for group in request.groups) or (request.group_id,)
        if all(await asyncio.gather(*(is_still_coordinator(self._services, log, one) for one in groups))):
            return self._from_groups(request, context)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.failed(request, code) if request.groups else self._refused(request, code, context.api_version)

    def _from_groups(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        offsets = self._services.coordination.groups.offsets
        if context.api_version >= FIRST_VERSION_WITH_GROUPS:
            groups = []
            for group in request.groups:
                keys = None if group.topics is None else _keys(group.topics)
                fetcher = Committer(group.member_epoch, group.member_id or "")
                found = offsets.fetch(group.group_id, keys, require_stable=request.require_stable, fetcher=fetcher)
                if isinstance(found, ErrorCode):
                    groups.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=found))
                else:
                    groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=_topics(found)))
            return OffsetFetchResponse(groups=groups)
        keys = None if request.topics is None else _keys(request.topics)
        found = offsets.fetch(request.group_id, keys, require_stable=request.require_stable)
        if isinstance(found, ErrorCode):
            return self._refused(request, found, context.api_version)
        return OffsetFetchResponse(topics=_old_topics(found))

    async def _from_registry(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        snapshot = self._services.metadata.snapshot
        found: dict[TopicPartition, Found] = {}
        for topic, index in _keys(request.topics or ()):
            if snapshot.partition(topic, index) is None:
                found[(topic, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            try:
                offset = await self._services.registry_offsets.get(request.group_id, topic, index)
            except Exception as error:
                found[(topic, index)] = unexpected_code(error, "a look for an offset in the registry")
            else:
                no_offset = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # the code of version 0 for "no offset"
                found[(topic, index)] = no_offset if offset is None else CommittedOffset(offset, NO_EPOCH, "", 0)
        return OffsetFetchResponse(topics=_old_topics(found))

    def _refused(self, request: OffsetFetchRequest, code: ErrorCode, version: int) -> OffsetFetchResponse:
        """Answer with an error of the whole group; before version 2, which has no field for it, for every partition."""
        if version >= FIRST_VERSION_WITH_ERROR:
            return OffsetFetchResponse(error_code=code)
        return self.failed(request, code)

    def failed(self, request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
        """Return the answer with the error: since version 8 for each group, before that for each partition."""
        if request.groups:
            return OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
            )
        return OffsetFetchResponse(
            topics=_old_topics(dict.fromkeys(_keys(request.topics or ()), code)), error_code=code
        )


def _keys(topics: Iterable[Any]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _by_topic(found: dict[TopicPartition, Found]) -> dict[str, list[_Fields]]:
    topics: dict[str, list[_Fields]] = {}
    for (topic, index), offset in found.items():
        if isinstance(offset, CommittedOffset):
            fields = _Fields(index, offset.offset, offset.leader_epoch, offset.metadata, ErrorCode.NONE)
        else:
            fields = _Fields(index, NONE_COMMITTED, NO_EPOCH, "", offset or ErrorCode.NONE)
        topics.setdefault(topic, []).append(fields)
    return topics


def _topics(found: dict[TopicPartition, Found]) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name, partitions=[OffsetFetchResponsePartitions(**one._asdict()) for one in partitions]
        )
        for name, partitions in _by_topic(found).items()
    ]


def _old_topics(found: dict[TopicPartition, Found]) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=name, partitions=[OffsetFetchResponsePartition(**one._asdict()) for one in partitions]
        )
        for name, partitions in _by_topic(found).items()
    ]

"""OffsetCommit: store the offsets up to which a group has processed partitions. The answer waits for the commit.

Version 0 is older than groups: its offsets are stored in the registry, where the oldest consumers read them.
"""

from __future__ import annotations

from functools import partial

from broker.coordinator.offset_manager import Codes, Committer
from broker.coordinator.offsets import CommittedOffset, TopicPartition
from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler, Later
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.record import NO_TIMESTAMP

DEFAULT = -1
"""As a commit's timestamp: the current time. As its retention time: the broker's setting."""
FIRST_VERSION_WITH_MEMBER_EPOCH = 9


class OffsetCommitHandler(Handler[OffsetCommitRequest, OffsetCommitResponse]):
    """Asks the group coordinator about partitions that exist."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
        """See the module docstring."""
        known = self._known(request)
        if context.api_version == 0:
            return self._commit_to_registry(request, known)
        groups = self._services.coordination.groups
        if not known:
            # A broker that has just started knows no topic. If it is not the coordinator either, that is the answer:
            # the client looks for the coordinator then, and would give up for an unknown topic.
            found = groups.find(request.group_id, may_be_empty=True)
            return self.failed(request, found) if isinstance(found, ErrorCode) else _response(request, {})
        now_ms = self._services.now_ms()
        retention_ms = request.retention_time_ms
        expire_timestamp = NO_TIMESTAMP if retention_ms == DEFAULT else now_ms + retention_ms
        offsets = {
            key: CommittedOffset(
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
                now_ms if partition.commit_timestamp == DEFAULT else partition.commit_timestamp,
                expire_timestamp,
            )
            for key, partition in known.items()
        }
        committer = Committer(
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            knows_epochs=context.api_version >= FIRST_VERSION_WITH_MEMBER_EPOCH,
        )
        return groups.offsets.commit(request.group_id, committer, offsets, partial(_response, request))

    def _known(self, request: OffsetCommitRequest) -> dict[TopicPartition, OffsetCommitRequestPartition]:
        snapshot = self._services.metadata.snapshot
        return {
            (topic.name, partition.partition_index): partition
            for topic in request.topics
            for partition in topic.partitions
            if snapshot.partition(topic.name, partition.partition_index) is not None
        }

    async def _commit_to_registry(
        self, request: OffsetCommitRequest, known: dict[TopicPartition, OffsetCommitRequestPartition]
    ) -> OffsetCommitResponse:
        codes: dict[TopicPartition, ErrorCode] = {}
        for (topic, index), partition in known.items():
            if len(partition.committed_metadata or "") > self._services.config.offset_metadata_max_bytes:
                codes[(topic, index)] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            try:
                await self._services.registry_offsets.set(request.group_id, topic, index, partition.committed_offset)
                codes[(topic, index)] = ErrorCode.NONE
            except Exception as error:
                codes[(topic, index)] = unexpected_code(error, "a commit of an offset to the registry")
        return _response(request, codes)

    def failed(self, request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
        """Return the answer with the error for every partition; nothing is committed."""
        keys = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        return _response(request, dict.fromkeys(keys, code))


def _response(request: OffsetCommitRequest, codes: Codes) -> OffsetCommitResponse:
    """Return the answer in the order of the request; partitions without a code do not exist."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=codes.get(
                            (topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

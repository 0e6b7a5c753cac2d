"""OffsetDelete: delete a group's offsets of topics that it is no longer subscribed to (KIP-496)."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class OffsetDeleteHandler(Handler[OffsetDeleteRequest, OffsetDeleteResponse]):
    """Asks the group coordinator about partitions that exist."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
        """See the module docstring. The answer waits until the deletion is committed."""
        snapshot = self._services.metadata.snapshot
        known = [
            (topic.name, one.partition_index)
            for topic in request.topics
            for one in topic.partitions
            if snapshot.partition(topic.name, one.partition_index) is not None
        ]
        codes = await self._services.coordination.groups.offsets.delete_offsets(request.group_id, known)
        if isinstance(codes, ErrorCode):
            return self.failed(request, codes)
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=one.partition_index,
                            error_code=codes.get(
                                (topic.name, one.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                            ),
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def failed(self, request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
        """Return the answer with an error of the whole group; nothing is deleted."""
        return OffsetDeleteResponse(error_code=code)

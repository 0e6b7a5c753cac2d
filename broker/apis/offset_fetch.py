"""OffsetFetch: the offsets that a group has committed.

Nothing is ever committed, as OffsetCommit is not served yet: every partition that is asked for has no offset, which is
what Kafka says of a group that it has never seen. Consumers with assigned partitions then begin where
`auto.offset.reset` tells them to.
"""

from __future__ import annotations

from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
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

NONE_COMMITTED = -1
FIRST_VERSION_WITH_GROUPS = 8


class OffsetFetchHandler(Handler[OffsetFetchRequest, OffsetFetchResponse]):
    """Says that nothing is committed."""

    __slots__ = ()
    needs = Needs(Resource.GROUP, Operation.DESCRIBE)

    def __init__(self, services: Services) -> None:
        """Takes what every handler takes."""

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        """See the module's text. Null topics ask for all that are committed: none."""
        if context.api_version >= FIRST_VERSION_WITH_GROUPS:
            return OffsetFetchResponse(
                groups=[
                    OffsetFetchResponseGroup(
                        group_id=group.group_id,
                        topics=[
                            OffsetFetchResponseTopics(
                                name=topic.name,
                                partitions=[
                                    OffsetFetchResponsePartitions(
                                        partition_index=index, committed_offset=NONE_COMMITTED, metadata=""
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in group.topics or ()
                        ],
                    )
                    for group in request.groups
                ]
            )
        return OffsetFetchResponse(topics=_by_topic(request, ErrorCode.NONE))

    def failed(self, request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
        """The whole request failed: by group from version 8 on, by partition before there was another place."""
        if request.groups:
            return OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
            )
        return OffsetFetchResponse(topics=_by_topic(request, code), error_code=code)


def _by_topic(request: OffsetFetchRequest, code: ErrorCode) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NONE_COMMITTED, metadata="", error_code=code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]

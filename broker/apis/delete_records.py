"""DeleteRecords: advance the log start offset of partitions (KIP-107)."""

from __future__ import annotations

import asyncio

from broker.errors import code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topic_names import INTERNAL_TOPICS
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from replication.errors import ReplicationError
from storage.errors import StorageError

INVALID_LOW_WATERMARK = -1


class DeleteRecordsHandler(Handler[DeleteRecordsRequest, DeleteRecordsResponse]):
    """Deletes on the leader, and answers when every live replica has deleted the records.

    Readers see the new log start offset at once; the next retention run deletes the segments.
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
        """See the module docstring."""
        outcomes = {
            (topic.name, one.partition_index): self._delete(topic.name, one)
            for topic in request.topics
            for one in topic.partitions
        }
        required = {key: outcome for key, outcome in outcomes.items() if not isinstance(outcome, ErrorCode)}
        if required:
            waited = self._services.replicas.wait_for_deletion(required, request.timeout_ms / 1000)
            if isinstance(waited, asyncio.Future):
                waited = await waited
            for key, found in waited.items():
                outcomes[key] = code_of(found) if isinstance(found, ReplicationError) else found
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        _result(one.partition_index, outcomes[(topic.name, one.partition_index)])
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _delete(self, topic: str, one: DeleteRecordsPartition) -> int | ErrorCode:
        """Return the new log start offset of the leader, or the error."""
        if topic in INTERNAL_TOPICS and topic in self._services.metadata.snapshot.topics:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        try:
            partition = self._services.replicas.partition(topic, one.partition_index)
            log = partition.leader_log()
            if "delete" not in log.config.cleanup_policy:
                return ErrorCode.POLICY_VIOLATION
            return partition.delete_records_before(one.offset)
        except (ReplicationError, StorageError, OSError) as error:
            return code_of(error)

    def failed(self, request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
        """Return the answer with the error for every partition."""
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[_result(one.partition_index, code) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )


def _result(partition: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=partition, low_watermark=INVALID_LOW_WATERMARK, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=outcome)

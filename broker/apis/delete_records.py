"""DeleteRecords: move the log start offset of partitions up (KIP-107)."""

from __future__ import annotations

from broker.errors import code_of
from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
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
    """Deletes on the leader; readers see the new log start offset at once, segments go with the next retention run."""

    __slots__ = ("_services",)
    needs = Needs(Resource.TOPIC, Operation.DELETE)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
        """See the module's text."""
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[self._delete(topic.name, one) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _delete(self, topic: str, one: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        if topic in INTERNAL_TOPICS and topic in self._services.metadata.snapshot.topics:
            return _failed(one, ErrorCode.INVALID_TOPIC_EXCEPTION)
        try:
            partition = self._services.replicas.partition(topic, one.partition_index)
            log = partition.leader_log()
            if "delete" not in log.config.cleanup_policy:
                return _failed(one, ErrorCode.POLICY_VIOLATION)
            low_watermark = partition.delete_records_before(one.offset)
        except (ReplicationError, StorageError, OSError) as error:
            return _failed(one, code_of(error))
        return DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=low_watermark)

    def failed(self, request: DeleteRecordsRequest, code: ErrorCode) -> DeleteRecordsResponse:
        """Every partition of the request failed."""
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(name=topic.name, partitions=[_failed(one, code) for one in topic.partitions])
                for topic in request.topics
            ]
        )


def _failed(one: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=one.partition_index, low_watermark=INVALID_LOW_WATERMARK, error_code=code
    )

"""OffsetForLeaderEpoch: the end offset of a leader epoch in the leader's log (KIP-101, KIP-320)."""

from __future__ import annotations

from broker.errors import code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from replication.errors import ReplicationError
from storage.errors import StorageError


class OffsetForLeaderEpochHandler(Handler[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse]):
    """Answers from the leader epoch caches of the logs that this broker leads."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
        """See the module docstring."""
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[self._end_of(topic.topic, asked) for asked in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _end_of(self, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            partition = self._services.replicas.partition(topic, asked.partition)
            log = partition.leader_log(asked.current_leader_epoch)
            epoch, end_offset = log.end_offset_for_epoch(asked.leader_epoch)
        except (ReplicationError, StorageError, OSError) as error:
            return EpochEndOffset(partition=asked.partition, error_code=code_of(error))
        return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)

    def failed(self, request: OffsetForLeaderEpochRequest, code: ErrorCode) -> OffsetForLeaderEpochResponse:
        """Return the answer with the error for every partition."""
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        EpochEndOffset(partition=asked.partition, error_code=code) for asked in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

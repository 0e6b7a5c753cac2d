"""DescribeProducers: the active producers of partitions, to find hanging transactions (KIP-664)."""

from __future__ import annotations

from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topic_names import topic_name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from replication.errors import ReplicationError


class DescribeProducersHandler(Handler[DescribeProducersRequest, DescribeProducersResponse]):
    """Answers from the logs that this broker leads."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
        """See the module docstring."""
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[self._describe(topic.name, partition) for partition in topic.partition_indexes],
                )
                for topic in request.topics
            ]
        )

    def _describe(self, topic: str, partition: int) -> PartitionResponse:
        problem = topic_name_problem(topic)
        if problem is not None:
            return PartitionResponse(
                partition_index=partition, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=problem
            )
        try:
            log = self._services.replicas.partition(topic, partition).leader_log()
        except ReplicationError as error:
            return PartitionResponse(
                partition_index=partition, error_code=unexpected_code(error, "DescribeProducers"), error_message=None
            )
        return PartitionResponse(
            partition_index=partition,
            active_producers=[
                ProducerState(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.producer_epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.last_timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=entry.current_txn_first_offset,
                )
                for entry in log.producers.producers.values()
            ],
        )

    def failed(self, request: DescribeProducersRequest, code: ErrorCode) -> DescribeProducersResponse:
        """Return the answer with the error for every partition."""
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(partition_index=partition, error_code=code)
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

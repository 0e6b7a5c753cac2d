"""StopReplica: the controller stops replicas of this broker, and on request deletes their logs."""

from __future__ import annotations

import logging

from broker.errors import RequestError, unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topic_names import replica_name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from protocol.sentinels import NO_EPOCH

logger = logging.getLogger(__name__)


class StopReplicaHandler(Handler[StopReplicaRequest, StopReplicaResponse]):
    """Passes the partitions to the replica manager."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
        """Raises StaleBrokerEpochError, StaleControllerEpochError for the whole request."""
        self._services.check_broker_epoch(request.broker_epoch)
        controller_requests = self._services.replicas.controller_requests
        controller_requests.check_controller(request.controller_epoch, context.connection.number)
        errors = []
        for topic, partition, leader_epoch, delete in _partitions(request):
            code = ErrorCode.NONE
            try:
                problem = replica_name_problem(topic, partition)
                if problem is not None:
                    raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
                await controller_requests.stop_replica(topic, partition, leader_epoch, delete=delete)
            except Exception as error:
                logger.warning("%s-%d: StopReplica failed: %s", topic, partition, error)
                code = unexpected_code(error, "StopReplica")
            errors.append(StopReplicaPartitionError(topic_name=topic, partition_index=partition, error_code=code))
        return StopReplicaResponse(partition_errors=errors)

    def failed(self, request: StopReplicaRequest, code: ErrorCode) -> StopReplicaResponse:
        """Return the answer to a refused request."""
        return StopReplicaResponse(error_code=code)


def _partitions(request: StopReplicaRequest) -> list[tuple[str, int, int, bool]]:
    """Return (topic, partition, leader epoch, delete) of every partition, for all versions of the request."""
    delete = request.delete_partitions
    flat = [(one.topic_name, one.partition_index, NO_EPOCH, delete) for one in request.ungrouped_partitions]
    by_topic = [(topic.name, index, NO_EPOCH, delete) for topic in request.topics for index in topic.partition_indexes]
    with_epochs = [
        (topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return flat + by_topic + with_epochs

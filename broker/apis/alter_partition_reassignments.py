"""AlterPartitionReassignments: move partitions to other replicas, or cancel a move with null replicas (KIP-455).

The answer is sent when the moves have started; ListPartitionReassignments lists those that are not completed.
"""

from __future__ import annotations

from functools import partial

from broker.errors import RequestError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


class AlterPartitionReassignmentsHandler(
    Handler[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse]
):
    """Makes the controller start the moves, one partition at a time."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        """Raises NotControllerError for the whole request."""
        self._services.acting_controller()
        return AlterPartitionReassignmentsResponse(
            responses=[
                ReassignableTopicResponse(
                    name=topic.name, partitions=[await self._move(topic.name, one) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    async def _move(self, topic: str, one: ReassignablePartition) -> ReassignablePartitionResponse:
        controller = self._services.acting_controller()
        key = (topic, one.partition_index)
        target = None if one.replicas is None else list(one.replicas)
        try:
            await controller.decide(f"reassignment of {topic}", partial(controller.reassignments.submit, key, target))
        except RequestError as error:
            return ReassignablePartitionResponse(
                partition_index=one.partition_index, error_code=error.code, error_message=str(error)
            )
        return ReassignablePartitionResponse(partition_index=one.partition_index, error_message=None)

    def failed(
        self, request: AlterPartitionReassignmentsRequest, code: ErrorCode
    ) -> AlterPartitionReassignmentsResponse:
        """Return the answer to a refused request."""
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=None)

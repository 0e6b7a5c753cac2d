"""ListPartitionReassignments: the partitions that are being moved to other replicas (KIP-455)."""

from __future__ import annotations

from broker.controller.controller import Controller
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ListPartitionReassignmentsHandler(Handler[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse]):
    """Asks the controller."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        """Raises NotControllerError."""
        controller = self._services.acting_controller()

        async def in_our_turn() -> ListPartitionReassignmentsResponse:
            return _list(request, controller)  # in the controller's queue: a new controller must first load its state

        return await controller.decide("ListPartitionReassignments", in_our_turn)

    def failed(self, request: ListPartitionReassignmentsRequest, code: ErrorCode) -> ListPartitionReassignmentsResponse:
        """Return the answer to a failed request."""
        return ListPartitionReassignmentsResponse(error_code=code, error_message=None)


def _list(request: ListPartitionReassignmentsRequest, controller: Controller) -> ListPartitionReassignmentsResponse:
    moving = controller.context.reassigning()
    if request.topics is not None:
        wanted = {(topic.name, partition) for topic in request.topics for partition in topic.partition_indexes}
        moving = [key for key in moving if key in wanted]
    topics: dict[str, OngoingTopicReassignment] = {}
    for topic, partition in moving:
        current = controller.reassignments.current((topic, partition))
        topics.setdefault(topic, OngoingTopicReassignment(name=topic)).partitions.append(
            OngoingPartitionReassignment(
                partition_index=partition,
                replicas=current.replicas,
                adding_replicas=current.adding,
                removing_replicas=current.removing,
            )
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))

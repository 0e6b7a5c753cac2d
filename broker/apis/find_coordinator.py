"""FindCoordinator: which broker coordinates a group or a transactional id.

A broker that is alone would coordinate every group, so it names itself, although it serves no groups yet: clients then
see from ApiVersions that JoinGroup and OffsetCommit are not there, and say so at once. Were the coordinator "not
available", they would ask again for as long as their timeouts allow: consumers with assigned partitions and a group id
wait 30 to 50 s when they close, and kafka-python does not even fetch. Of transactions there is no coordinator.

librdkafka also takes this API's presence for the proof that a broker knows lz4.
"""

from __future__ import annotations

from broker.handler import Handler, Needs, Operation, Resource
from broker.metadata_cache import Node
from broker.request_context import RequestContext
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

MESSAGE = "No broker runs such a coordinator."
NOBODY = -1
GROUP = 0  # key type
FIRST_VERSION_BY_KEY = 4


class FindCoordinatorHandler(Handler[FindCoordinatorRequest, FindCoordinatorResponse]):
    """Names this broker for groups, nobody for the rest."""

    __slots__ = ("_services",)
    needs = Needs(Resource.GROUP, Operation.DESCRIBE)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
        """See the module's text."""
        if context.api_version >= FIRST_VERSION_BY_KEY and not request.coordinator_keys:
            return FindCoordinatorResponse()
        node = self._services.metadata.snapshot.node(self._services.broker_id, context.listener_name)
        if request.key_type != GROUP or node is None:
            return self.failed(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return _found(request, node)

    def failed(self, request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        """No coordinator for any key. Where keys are listed (from version 4 on), the answer is by key."""
        if request.coordinator_keys:
            return FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key=key, node_id=NOBODY, port=NOBODY, error_code=code, error_message=MESSAGE)
                    for key in request.coordinator_keys
                ]
            )
        return FindCoordinatorResponse(error_code=code, error_message=MESSAGE, node_id=NOBODY, port=NOBODY)


def _found(request: FindCoordinatorRequest, node: Node) -> FindCoordinatorResponse:
    if request.coordinator_keys:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=node.id, host=node.host, port=node.port)
                for key in request.coordinator_keys
            ]
        )
    return FindCoordinatorResponse(node_id=node.id, host=node.host, port=node.port)

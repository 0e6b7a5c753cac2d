"""FindCoordinator: the broker that coordinates a group or a transactional id (KIP-98; batched since KIP-699).

The coordinator is the leader of the internal topic's partition that the key hashes to. The first request creates the
topic and waits briefly for its leaders, because a client that gets COORDINATOR_NOT_AVAILABLE retries only later.
librdkafka also concludes from the presence of this API that a broker supports lz4.
"""

from __future__ import annotations

from broker.cluster.metadata_cache import Node
from broker.coordinator.coordinator_log import CoordinatorLog
from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "There are no coordinators of this type.",
}
NO_NODE = -1
GROUP, TRANSACTION = 0, 1
"""Key types; 2 are share groups, which Kafka refuses unless they are enabled."""

FIRST_VERSION_BY_KEY = 4


class FindCoordinatorHandler(Handler[FindCoordinatorRequest, FindCoordinatorResponse]):
    """Asks the logs of the two coordinators."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
        """See the module docstring."""
        coordination = self._services.coordination
        logs = {GROUP: coordination.group_log, TRANSACTION: coordination.transaction_log}
        log = logs.get(request.key_type)
        if context.api_version >= FIRST_VERSION_BY_KEY and not request.coordinator_keys:
            return FindCoordinatorResponse()
        if log is None:
            return self.failed(request, ErrorCode.INVALID_REQUEST)
        try:
            await log.ensure_exists()
        except Exception as error:
            code = unexpected_code(error, f"the creation of {log.topic}")
            if code is not ErrorCode.UNKNOWN_SERVER_ERROR:  # too few brokers, no controller: temporary errors
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return self.failed(request, code)
        if context.api_version >= FIRST_VERSION_BY_KEY:
            return FindCoordinatorResponse(
                coordinators=[_found(log, key, context.listener_name) for key in request.coordinator_keys]
            )
        node = log.find(request.key, context.listener_name)
        if node is None:
            return self.failed(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(error_message="NONE", node_id=node.id, host=node.host, port=node.port)

    def failed(self, request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        """Return the answer with the error, for each key if the request lists keys (since version 4)."""
        if request.coordinator_keys:
            return FindCoordinatorResponse(
                coordinators=[_coordinator(key, None, code) for key in request.coordinator_keys]
            )
        return FindCoordinatorResponse(
            error_code=code, error_message=MESSAGES.get(code, code.name), node_id=NO_NODE, port=NO_NODE
        )


def _found(log: CoordinatorLog, key: str, listener_name: str) -> Coordinator:
    return _coordinator(key, log.find(key, listener_name), ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _coordinator(key: str, node: Node | None, code: ErrorCode) -> Coordinator:
    """Return the coordinator of one key; if there is none, with `code`."""
    if node is None:
        return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=code)
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port)

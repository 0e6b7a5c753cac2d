"""FindCoordinator: which broker coordinates a group or a transactional id.

No broker runs coordinators yet, so none is available: COORDINATOR_NOT_AVAILABLE, which clients take as "ask again
later". The API is announced all the same, because librdkafka takes its presence for the proof that a broker knows lz4.
"""

from __future__ import annotations

from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

MESSAGE = "No broker runs group or transaction coordinators."
NOBODY = -1
FIRST_VERSION_BY_KEY = 4


class FindCoordinatorHandler(Handler[FindCoordinatorRequest, FindCoordinatorResponse]):
    """Says that there is none."""

    __slots__ = ()
    needs = Needs(Resource.GROUP, Operation.DESCRIBE)

    def __init__(self, services: Services) -> None:
        """Takes what every handler takes."""

    def handle(self, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
        """See the module's text."""
        if context.api_version >= FIRST_VERSION_BY_KEY and not request.coordinator_keys:
            return FindCoordinatorResponse()
        return self.failed(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)

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

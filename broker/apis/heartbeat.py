"""Heartbeat: keep a member of a classic group alive, and tell it whether the group rebalances."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class HeartbeatHandler(Handler[HeartbeatRequest, HeartbeatResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """See the module docstring."""
        return HeartbeatResponse(error_code=self._services.coordination.groups.heartbeat(request))

    def failed(self, request: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
        """Return the answer with the error."""
        return HeartbeatResponse(error_code=code)

"""JoinGroup: join a classic group, or rejoin it in a rebalance. The answer waits for the other members."""

from __future__ import annotations

from broker.coordinator.consumer.membership import Client
from broker.requests.context import RequestContext
from broker.requests.handler import Changed, Handler, Later
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITHOUT_PROTOCOL_NAME = 7
"""Earlier versions cannot have a null protocol name."""


class JoinGroupHandler(Handler[JoinGroupRequest, JoinGroupResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: JoinGroupRequest, context: RequestContext) -> Later[JoinGroupResponse]:
        """See the module docstring. A member that disconnects meanwhile stays a member until its session times out."""
        client = Client(context.client_id or "", f"/{context.client_address}")
        response = self._services.coordination.groups.join(request, context.api_version, client)
        return response if context.api_version >= FIRST_VERSION_WITHOUT_PROTOCOL_NAME else Changed(response, _with_name)

    def failed(self, request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
        """Return the answer with the error; the member does not join."""
        return JoinGroupResponse(error_code=code, protocol_name="")


def _with_name(response: JoinGroupResponse) -> JoinGroupResponse:
    response.protocol_name = response.protocol_name or ""
    return response

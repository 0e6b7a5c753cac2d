"""SyncGroup: the leader sends all assignments, and each member gets its own. The answer waits for the leader."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler, Later
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5
"""Since this version, a request must have the protocol type and name of the group."""


class SyncGroupHandler(Handler[SyncGroupRequest, SyncGroupResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> SyncGroupResponse | Later[SyncGroupResponse]:
        """See the module docstring."""
        if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            return self.failed(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return self._services.coordination.groups.sync(request)

    def failed(self, request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
        """Return the answer with the error; the member gets no assignment."""
        return SyncGroupResponse(error_code=code)

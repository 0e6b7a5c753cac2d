"""ListGroups: the groups that this broker coordinates, optionally filtered by state (KIP-518) and type (KIP-848)."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class ListGroupsHandler(Handler[ListGroupsRequest, ListGroupsResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """See the module docstring. While a partition is being loaded, the list is incomplete and has an error code."""
        code, groups = self._services.coordination.groups.list(request.states_filter, request.types_filter)
        return ListGroupsResponse(error_code=code, groups=groups)

    def failed(self, request: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
        """Return the answer with the error; no groups are listed."""
        return ListGroupsResponse(error_code=code)

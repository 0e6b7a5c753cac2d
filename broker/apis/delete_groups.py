"""DeleteGroups: delete groups without members, and their offsets. The answer waits until the deletion is committed."""

from __future__ import annotations

from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroupsHandler(Handler[DeleteGroupsRequest, DeleteGroupsResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        """See the module docstring."""
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            try:
                code = await self._services.coordination.groups.offsets.delete_group(group_id)
            except Exception as error:
                code = unexpected_code(error, f"the deletion of group {group_id!r}")
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return DeleteGroupsResponse(results=results)

    def failed(self, request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
        """Return the answer with the error for every group; no group is deleted."""
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=group_id, error_code=code)
                for group_id in dict.fromkeys(request.groups_names)
            ]
        )

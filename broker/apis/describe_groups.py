"""DescribeGroups: classic groups with their members and assignments."""

from __future__ import annotations

from broker.requests.authorized_operations import operations_on
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from security.acls.types import ResourceType


class DescribeGroupsHandler(Handler[DescribeGroupsRequest, DescribeGroupsResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        """See the module docstring. An unknown group is described as Dead."""
        groups = [self._services.coordination.groups.describe(group_id) for group_id in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = operations_on(ResourceType.GROUP)
        return DescribeGroupsResponse(groups=groups)

    def failed(self, request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
        """Return the answer with the error for every group."""
        return DescribeGroupsResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.groups]
        )

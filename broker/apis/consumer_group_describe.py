"""ConsumerGroupDescribe: consumer groups (KIP-848) and their members with current and target assignments."""

from __future__ import annotations

from broker.requests.authorized_operations import operations_on
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from security.acls.types import ResourceType


class ConsumerGroupDescribeHandler(Handler[ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse]):
    """Asks the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
        """See the module docstring."""
        groups = [self._services.coordination.groups.describe_consumer_group(one) for one in request.group_ids]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = operations_on(ResourceType.GROUP)
        return ConsumerGroupDescribeResponse(groups=groups)

    def failed(self, request: ConsumerGroupDescribeRequest, code: ErrorCode) -> ConsumerGroupDescribeResponse:
        """Return the answer with the error for every group."""
        return ConsumerGroupDescribeResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=code) for group_id in request.group_ids]
        )

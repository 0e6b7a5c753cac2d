"""DescribeAcls: the ACLs that a filter selects (KIP-140, KIP-290)."""

from __future__ import annotations

from broker.authorization.acl_messages import NO_AUTHORIZER, acl_authorizer, filter_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from security.acls.binding import ResourcePattern


class DescribeAclsHandler(Handler[DescribeAclsRequest, DescribeAclsResponse]):
    """Asks the authorizer."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
        """Raises CloseConnectionError for a filter with UNKNOWN."""
        acl_filter = filter_of(request)
        authorizer = acl_authorizer(self._services)
        if authorizer is None:
            return self.failed(request, ErrorCode.SECURITY_DISABLED)
        resources: dict[ResourcePattern, DescribeAclsResource] = {}
        for pattern, rule in authorizer.describe(acl_filter):
            resource = resources.get(pattern)
            if resource is None:
                resource = resources[pattern] = DescribeAclsResource(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    pattern_type=pattern.pattern_type,
                )
            resource.acls.append(
                AclDescription(
                    principal=rule.principal, host=rule.host, operation=rule.operation, permission_type=rule.permission
                )
            )
        return DescribeAclsResponse(error_message="", resources=list(resources.values()))

    def failed(self, request: DescribeAclsRequest, code: ErrorCode) -> DescribeAclsResponse:
        """Return the answer with the error; no ACLs are listed."""
        message = NO_AUTHORIZER if code is ErrorCode.SECURITY_DISABLED else code.name
        return DescribeAclsResponse(error_code=code, error_message=message)

"""DeleteAcls: delete the ACLs that filters select, and answer with them."""

from __future__ import annotations

from broker.authorization.acl_messages import NO_AUTHORIZER, acl_authorizer, filter_of
from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from security.acls.binding import AclBinding


class DeleteAclsHandler(Handler[DeleteAclsRequest, DeleteAclsResponse]):
    """Asks the authorizer. An error of one filter does not affect the others."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
        """Raises CloseConnectionError for a filter with UNKNOWN; then nothing is deleted."""
        filters = [filter_of(one) for one in request.filters]
        authorizer = acl_authorizer(self._services)
        if authorizer is None:
            return self.failed(request, ErrorCode.SECURITY_DISABLED)
        return DeleteAclsResponse(filter_results=[_result(found) for found in await authorizer.delete(filters)])

    def failed(self, request: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
        """Return the answer with the error for every filter; nothing is deleted."""
        message = NO_AUTHORIZER if code is ErrorCode.SECURITY_DISABLED else code.name
        results = [DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
        return DeleteAclsResponse(filter_results=results)


def _result(found: list[AclBinding] | Exception) -> DeleteAclsFilterResult:
    if isinstance(found, Exception):
        return DeleteAclsFilterResult(error_code=unexpected_code(found, "DeleteAcls"), error_message=str(found))
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for pattern, rule in found
        ],
    )

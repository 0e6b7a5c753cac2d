"""CreateAcls: add ACLs. The answer is sent when they are in the registry and in force on this broker."""

from __future__ import annotations

from broker.authorization.acl_messages import NO_AUTHORIZER, acl_authorizer, binding_of, refuse_unknown_creations
from broker.errors import code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from security.acls.binding import AclBinding


class CreateAclsHandler(Handler[CreateAclsRequest, CreateAclsResponse]):
    """Asks the authorizer. An error of one ACL does not affect the others."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
        """Raises CloseConnectionError for an ACL with UNKNOWN."""
        refuse_unknown_creations(request.creations)
        authorizer = acl_authorizer(self._services)
        if authorizer is None:
            return self.failed(request, ErrorCode.SECURITY_DISABLED)
        outcomes: list[Exception | None] = [None] * len(request.creations)
        bindings: dict[int, AclBinding] = {}
        for number, one in enumerate(request.creations):
            try:
                bindings[number] = binding_of(one)
            except Exception as error:
                outcomes[number] = error
        created = await authorizer.create(list(bindings.values()))
        for number, outcome in zip(bindings, created, strict=True):
            outcomes[number] = outcome
        return CreateAclsResponse(results=[_result(outcome) for outcome in outcomes])

    def failed(self, request: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
        """Return the answer with the error for every ACL; none is created."""
        message = NO_AUTHORIZER if code is ErrorCode.SECURITY_DISABLED else code.name
        results = [AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
        return CreateAclsResponse(results=results)


def _result(error: Exception | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message="")
    return AclCreationResult(error_code=code_of(error), error_message=str(error))

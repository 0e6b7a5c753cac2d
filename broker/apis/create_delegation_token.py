"""CreateDelegationToken: a token for the user of the connection (KIP-48).

A token for another owner (version 3, KIP-373) needs the right CreateTokens on the owner, which the rule of this API
checks. Without an authorizer, nobody has it: every client could take the place of every user.
"""

from __future__ import annotations

from broker.authentication.token_requests import check_requester
from broker.authentication.tokens import DelegationTokenError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from security.principal import ANONYMOUS, Principal

FIRST_VERSION_WITH_REQUESTER = 3


class CreateDelegationTokenHandler(Handler[CreateDelegationTokenRequest, CreateDelegationTokenResponse]):
    """Creates in the registry."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: CreateDelegationTokenRequest, context: RequestContext
    ) -> CreateDelegationTokenResponse:
        """See the module docstring."""
        requester = owner = context.principal
        if request.owner_principal_name:
            if not request.owner_principal_type:
                response = self.failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which fails in its parser
                response.token_requester_principal_type, response.token_requester_principal_name = ANONYMOUS
                return response
            owner = Principal(request.owner_principal_type, request.owner_principal_name)
        response = CreateDelegationTokenResponse(
            principal_type=owner.type,
            principal_name=owner.name,
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        )
        if context.api_version >= FIRST_VERSION_WITH_REQUESTER:
            response.token_requester_principal_type = requester.type
            response.token_requester_principal_name = requester.name
        tokens = self._services.tokens
        renewers = [Principal(one.principal_type, one.principal_name) for one in request.renewers]
        try:
            check_requester(context)
            tokens.check_enabled()
            if owner != requester and self._services.access is None:
                raise DelegationTokenError(
                    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "a token for another owner needs a right"
                )
            token = await tokens.create(requester, owner, renewers, request.max_lifetime_ms)
        except DelegationTokenError as error:
            response.error_code = error.code
            return response
        response.issue_timestamp_ms = token.issue_timestamp_ms
        response.expiry_timestamp_ms = token.expiry_timestamp_ms
        response.max_timestamp_ms = token.max_timestamp_ms
        response.token_id = token.token_id
        response.hmac = tokens.hmac_of(token)
        return response

    def failed(self, request: CreateDelegationTokenRequest, code: ErrorCode) -> CreateDelegationTokenResponse:
        """Return the answer with the error."""
        return CreateDelegationTokenResponse(
            error_code=code,
            principal_type=ANONYMOUS.type,
            principal_name=ANONYMOUS.name,
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        )

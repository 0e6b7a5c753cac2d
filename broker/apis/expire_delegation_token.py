"""ExpireDelegationToken: move the end of a token, or remove it now (KIP-48)."""

from __future__ import annotations

from broker.authentication.token_requests import check_requester
from broker.authentication.tokens import DelegationTokenError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


class ExpireDelegationTokenHandler(Handler[ExpireDelegationTokenRequest, ExpireDelegationTokenResponse]):
    """Only the owner and the renewers of a token may do it."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: ExpireDelegationTokenRequest, context: RequestContext
    ) -> ExpireDelegationTokenResponse:
        """See the module docstring."""
        try:
            check_requester(context)
            end_ms = await self._services.tokens.expire(
                context.principal, bytes(request.hmac), request.expiry_time_period_ms
            )
        except DelegationTokenError as error:
            return self.failed(request, error.code)
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=end_ms)

    def failed(self, request: ExpireDelegationTokenRequest, code: ErrorCode) -> ExpireDelegationTokenResponse:
        """Return the answer with the error."""
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)

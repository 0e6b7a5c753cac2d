"""RenewDelegationToken: move the end of a token, at most to its maximum (KIP-48)."""

from __future__ import annotations

from broker.authentication.token_requests import check_requester
from broker.authentication.tokens import DelegationTokenError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


class RenewDelegationTokenHandler(Handler[RenewDelegationTokenRequest, RenewDelegationTokenResponse]):
    """Only the owner and the renewers of a token may do it."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: RenewDelegationTokenRequest, context: RequestContext
    ) -> RenewDelegationTokenResponse:
        """See the module docstring."""
        try:
            check_requester(context)
            end_ms = await self._services.tokens.renew(context.principal, bytes(request.hmac), request.renew_period_ms)
        except DelegationTokenError as error:
            return self.failed(request, error.code)
        return RenewDelegationTokenResponse(expiry_timestamp_ms=end_ms)

    def failed(self, request: RenewDelegationTokenRequest, code: ErrorCode) -> RenewDelegationTokenResponse:
        """Return the answer with the error."""
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)

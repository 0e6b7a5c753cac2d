"""DescribeDelegationToken: the tokens that concern the user of the connection, with their secrets (KIP-48)."""

from __future__ import annotations

from broker.authentication.token_requests import check_requester
from broker.authentication.tokens import DelegationTokenError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from registry.znodes.delegation_tokens import DelegationTokenZnode
from security.principal import Principal


class DescribeDelegationTokenHandler(Handler[DescribeDelegationTokenRequest, DescribeDelegationTokenResponse]):
    """Answers from what the broker knows."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribeDelegationTokenRequest, context: RequestContext
    ) -> DescribeDelegationTokenResponse:
        """See the module docstring."""
        owners = None
        if request.owners is not None:
            owners = [Principal(one.principal_type, one.principal_name) for one in request.owners]
        tokens = self._services.tokens
        is_filtered = self._services.access is not None  # by the rule of this API
        try:
            check_requester(context)
            found = tokens.described(context.principal, owners, lambda token: is_filtered)
        except DelegationTokenError as error:
            return self.failed(request, error.code)
        return DescribeDelegationTokenResponse(tokens=[_described(token, tokens.hmac_of(token)) for token in found])

    def failed(self, request: DescribeDelegationTokenRequest, code: ErrorCode) -> DescribeDelegationTokenResponse:
        """Return the answer with the error."""
        return DescribeDelegationTokenResponse(error_code=code)


def _described(token: DelegationTokenZnode, secret: bytes) -> DescribedDelegationToken:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.token_requester)
    renewers = [text.partition(":")[::2] for text in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiry_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, name in renewers],
    )

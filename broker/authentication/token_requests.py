"""Who may make requests about delegation tokens: what the handlers of the four APIs share."""

from __future__ import annotations

from broker.authentication.tokens import DelegationTokenError
from broker.requests.context import RequestContext
from protocol.error_codes import ErrorCode
from security.principal import ANONYMOUS


def check_requester(context: RequestContext) -> None:
    """Raise DelegationTokenError for a client that has proved no user, or has logged in with a token itself."""
    if context.principal == ANONYMOUS or context.connection.is_token_login:
        raise DelegationTokenError(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "delegation tokens need a client that is authenticated, and not by a token",
        )

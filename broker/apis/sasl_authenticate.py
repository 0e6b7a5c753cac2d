"""SaslAuthenticate on a connection that needs no authentication (any more): refused.

Authentication itself comes before the dispatcher: broker/authentication/.
"""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

_AFTER_AUTHENTICATION = "SaslAuthenticate request received after successful authentication"


class SaslAuthenticateHandler(Handler[SaslAuthenticateRequest, SaslAuthenticateResponse]):
    """Answers ILLEGAL_SASL_STATE."""

    __slots__ = ()

    def __init__(self, services: Services) -> None:
        pass

    def handle(self, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
        """See the module docstring."""
        return self.failed(request, ErrorCode.ILLEGAL_SASL_STATE)

    def failed(self, request: SaslAuthenticateRequest, code: ErrorCode) -> SaslAuthenticateResponse:
        """Return the answer with the error."""
        message = _AFTER_AUTHENTICATION if code == ErrorCode.ILLEGAL_SASL_STATE else ""
        return SaslAuthenticateResponse(error_code=code, error_message=message)

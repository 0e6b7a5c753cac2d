"""SaslHandshake on a connection that needs no authentication (any more): refused.

Authentication itself comes before the dispatcher: broker/authentication/.
"""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class SaslHandshakeHandler(Handler[SaslHandshakeRequest, SaslHandshakeResponse]):
    """Answers ILLEGAL_SASL_STATE."""

    __slots__ = ()

    def __init__(self, services: Services) -> None:
        pass

    def handle(self, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
        """See the module docstring."""
        return self.failed(request, ErrorCode.ILLEGAL_SASL_STATE)

    def failed(self, request: SaslHandshakeRequest, code: ErrorCode) -> SaslHandshakeResponse:
        """Return the answer with the error."""
        return SaslHandshakeResponse(error_code=code)

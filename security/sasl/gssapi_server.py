"""GSSAPI (RFC 4752), the server's side: tokens of Kerberos, then an offer of security layers and the client's choice.

As in Kafka, the only layer is none, the authorization id in the client's choice is not used, and the last message of
the client has no answer after SaslHandshake v0. A replayed token, or a ticket that is not valid yet, closes the
connection without an answer: the client tries again. Other failures are answered without the reason.
"""

from __future__ import annotations

from security.sasl.errors import SaslMessageError, invalid_credentials
from security.sasl.gss_context import GSSAPI, LAYERS_BYTES, NO_SECURITY_LAYER, AcceptorContext, KerberosError
from security.sasl.kerberos_names import LocalNames, NoMatchingRuleError
from security.sasl.server import Authenticated, SaslServer


class GssapiServer(SaslServer):
    """One exchange of GSSAPI."""

    reads_files = True  # the keytab, and the cache of tokens that were used before

    def __init__(self, context: AcceptorContext, names: LocalNames) -> None:
        """names: from principals to users."""
        self._context = context
        self._names = names
        self._has_offered = False

    def step(self, message: bytes) -> bytes | None:
        """See `SaslServer`."""
        if self.authenticated is not None:
            raise SaslMessageError("the exchange has ended")
        try:
            if not self._context.is_established:
                return self._accept(message)
            if not self._has_offered:
                return self._offer(message)
            self.authenticated = self._finish(message)
        except KerberosError as error:
            if error.is_transient:
                raise SaslMessageError(str(error)) from None
            raise invalid_credentials(GSSAPI, str(error)) from None
        except NoMatchingRuleError as error:
            raise invalid_credentials(GSSAPI, str(error)) from None
        return None

    def _accept(self, token: bytes) -> bytes:
        if not token:
            raise KerberosError("the token is empty")
        answer = self._context.step(token)
        if answer:
            return answer
        if not self._context.is_established:
            raise KerberosError("the token does not establish a context")
        return self._offer(b"")  # the client has not asked for a proof of the server

    def _offer(self, message: bytes) -> bytes:
        if message:
            raise KerberosError("the message before the offer of security layers must be empty")
        self._has_offered = True
        return self._context.wrap(NO_SECURITY_LAYER.to_bytes(1, "big").ljust(LAYERS_BYTES, b"\0"))

    def _finish(self, message: bytes) -> Authenticated:
        choice = self._context.unwrap(message)
        if len(choice) < LAYERS_BYTES or choice[0] != NO_SECURITY_LAYER:
            raise KerberosError("the client must choose 'no security layer', the only one offered")
        return Authenticated.user(self._names.name_of(self._context.client()))

"""GSSAPI (RFC 4752), the client's side: tokens of Kerberos, then the choice of a security layer, which is none."""

from __future__ import annotations

from security.sasl.errors import SaslError
from security.sasl.gss_context import GSSAPI, LAYERS_BYTES, NO_SECURITY_LAYER, KerberosError, SecurityContext


class GssapiClient:
    """One login with a ticket. Kerberos also proves that the server has the key of its principal."""

    def __init__(self, context: SecurityContext) -> None:
        """Make the first token; it may ask a KDC, so this is not for the event loop. Raises KerberosError."""
        self._context = context
        self._first = context.step(None) or b""
        self._has_chosen = False

    @property
    def is_last(self) -> bool:
        """See `ClientExchange`."""
        return self._has_chosen

    def first(self) -> bytes:
        """Return the token with the ticket."""
        return self._first

    def answer(self, message: bytes) -> bytes | None:
        """Return the next token, or the choice of no security layer; None after the choice."""
        if self._has_chosen:
            return None
        try:
            if not self._context.is_established:
                return self._context.step(message) or b""
            return self._choose(self._context.unwrap(message))
        except KerberosError as error:
            raise SaslError(f"{GSSAPI}: {error}") from None

    def _choose(self, offer: bytes) -> bytes:
        if len(offer) < LAYERS_BYTES or not offer[0] & NO_SECURITY_LAYER:
            raise SaslError(
                f"{GSSAPI}: the server must offer 'no security layer', the only one that Kafka's clients have"
            )
        self._has_chosen = True
        return self._context.wrap(NO_SECURITY_LAYER.to_bytes(1, "big").ljust(LAYERS_BYTES, b"\0"))

"""What the exchanges of GSSAPI need of a Kerberos library: a security context on each side (RFC 2743)."""

from __future__ import annotations

from typing import Final, Protocol

GSSAPI: Final = "GSSAPI"

NO_SECURITY_LAYER: Final = 1
"""The bit of RFC 4752 for "no security layer": the only one that Kafka has, because TLS protects the connection."""
LAYERS_BYTES: Final = 4
"""How long the server's offer is: a byte of these bits, and the largest message as three bytes."""


class KerberosError(Exception):
    """Kerberos refuses a token, or gives no ticket. The text is the library's and contains no key and no password."""

    def __init__(self, reason: str, *, is_transient: bool = False) -> None:
        """is_transient: whether a new login may succeed, for example because no KDC answers now."""
        super().__init__(reason)
        self.is_transient = is_transient


class SecurityContext(Protocol):
    """One side of a context. Every method raises KerberosError."""

    @property
    def is_established(self) -> bool:
        """Whether both sides have proved what they have to prove."""
        ...

    def step(self, token: bytes | None) -> bytes | None:
        """Take a token of the peer, None at the beginning of a client. Return the token for the peer, if there is one.

        It may read files and ask a KDC: not for the thread of an event loop.
        """
        ...

    def wrap(self, message: bytes) -> bytes:
        """Return a message with the signature of an established context; it is not encrypted."""
        ...

    def unwrap(self, token: bytes) -> bytes:
        """Return the message of the peer after a check of its signature."""
        ...


class AcceptorContext(SecurityContext, Protocol):
    """The server's side."""

    def client(self) -> str:
        """Return the principal of the client with its realm, in an established context."""
        ...

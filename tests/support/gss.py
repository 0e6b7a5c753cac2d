"""A security context without Kerberos: the tokens of a client are `ticket:<principal>`, signatures are a prefix."""

from __future__ import annotations

from security.sasl.gss_context import KerberosError

SIGNED = b"signed:"
PROOF = b"proof of the server"


class FakeContext:
    """Either side. is_mutual: whether the client asks for a proof of the server; broken: the error of each step."""

    def __init__(self, *, is_mutual: bool = True, principal: str = "", broken: KerberosError | None = None) -> None:
        self.is_established = False
        self.is_mutual = is_mutual
        self.principal = principal
        self.broken = broken

    def step(self, token: bytes | None) -> bytes | None:
        if self.broken is not None:
            raise self.broken
        if token is None:
            self.is_established = not self.is_mutual
            return f"ticket:{self.principal}".encode()
        if token == PROOF:
            self.is_established = True
            return None
        if not token.startswith(b"ticket:"):
            raise KerberosError("no ticket")
        self.principal = token.removeprefix(b"ticket:").decode()
        self.is_established = True
        return PROOF if self.is_mutual else None

    def wrap(self, message: bytes) -> bytes:
        return SIGNED + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(SIGNED):
            raise KerberosError("the signature is wrong")
        return token.removeprefix(SIGNED)

    def client(self) -> str:
        return self.principal

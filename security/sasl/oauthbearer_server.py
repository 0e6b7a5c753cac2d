"""OAUTHBEARER (RFC 7628), the server's side: `n,[a=authzid],^Aauth=Bearer <token>^A[name=value^A ...]^A`.

A token that is not valid is answered with a JSON object; the client sends `^A`, and then the exchange fails. As in
Kafka, another scheme than Bearer gets no answer, and the extensions after the token are accepted and not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from security.principal import USER, Principal
from security.sasl.errors import AuthenticationFailedError, SaslMessageError, invalid_credentials
from security.sasl.scram import from_saslname
from security.sasl.server import Authenticated, SaslServer

OAUTHBEARER: Final = "OAUTHBEARER"
_FIRST: Final = (
    r"n,(?:a=(?P<authzid>(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTHORIZATION: Final = r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)"


class BearerToken(NamedTuple):
    """A token that is valid. expires_ms: since 1970."""

    user: str
    expires_ms: int


class InvalidTokenError(Exception):
    """A token is not valid. The text is for the log, and shows nothing of the token but names and times."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str = "") -> None:
        """status, scope: what the client is told (RFC 7628, section 3.2.2)."""
        super().__init__(reason)
        self.status = status
        self.scope = scope


ValidateToken: TypeAlias = Callable[[str], BearerToken]
"""Returns what a token says. Raises InvalidTokenError."""


class OauthBearerServer(SaslServer):
    """One exchange of OAUTHBEARER."""

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._failed: tuple[str, str] | None = None  # the answer to an invalid token, and the reason

    def step(self, message: bytes) -> bytes:
        """See `SaslServer`."""
        if self._failed is not None:
            if message == b"\x01":
                raise AuthenticationFailedError(*self._failed)
            raise invalid_credentials(OAUTHBEARER, "the client's answer to the error is not the byte 01")
        authorization_id, token = self._parse(message)
        try:
            bearer = self._validate(token)
        except InvalidTokenError as error:
            answer = {"status": error.status} | ({"scope": error.scope} if error.scope else {})
            self._failed = json.dumps(answer, separators=(",", ":")), f"the token is not valid: {error}"
            return self._failed[0].encode()
        if authorization_id not in ("", bearer.user):
            raise AuthenticationFailedError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({bearer.user})",
                "the authorization id is not the user of the token",
            )
        self.authenticated = Authenticated(Principal(USER, bearer.user), bearer.expires_ms)
        return b""

    def _parse(self, message: bytes) -> tuple[str, str]:
        found = re.fullmatch(_FIRST, str(message, "latin-1"))
        pairs = found["pairs"].split("\x01")[:-1] if found else []
        authorizations = [value for name, _, value in (pair.partition("=") for pair in pairs) if name == "auth"]
        authorization = re.fullmatch(_AUTHORIZATION, authorizations[0]) if len(authorizations) == 1 else None
        if found is None or authorization is None:
            raise invalid_credentials(OAUTHBEARER, "the first message does not have the format of OAUTHBEARER")
        if authorization["scheme"].lower() != "bearer":
            raise SaslMessageError("the scheme of the authorization is not Bearer")
        return from_saslname(found["authzid"] or ""), authorization["token"]

"""PLAIN (RFC 4616), the server's side: `[authzid] NUL user NUL password` in one message.

A wrong password and an unknown user look the same, and take the same time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from security.sasl.errors import AuthenticationFailedError
from security.sasl.server import OTHER_AUTHORIZATION_ID, Authenticated, SaslServer

_USER_OPTION = "user_"


class PlainUsers:
    """The users of a JAAS line: its options `user_<name>="<password>"`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._hashes = {
            name.removeprefix(_USER_OPTION): _hashed(password)
            for name, password in options.items()
            if name.startswith(_USER_OPTION)
        }
        self._nobody = _hashed("")

    def has(self, user: str, password: str) -> bool:
        """Return whether this is the password of a user."""
        expected = self._hashes.get(user)
        matches = hmac.compare_digest(_hashed(password), self._nobody if expected is None else expected)
        return matches and expected is not None


class PlainServer(SaslServer):
    """One exchange of PLAIN."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def step(self, message: bytes) -> bytes:
        """See `SaslServer`."""
        fields = str(message, "utf-8", "replace").split("\0")
        if len(fields) != 3:
            count = min(len(fields), 4)  # Kafka does not count further
            raise AuthenticationFailedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        authorization_id, user, password = fields
        if not user:
            raise AuthenticationFailedError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailedError("Authentication failed: password not specified")
        if not self._users.has(user, password):
            shown = "Authentication failed: Invalid username or password"
            raise AuthenticationFailedError(shown, f"{shown}, user {user!r}")
        if authorization_id not in ("", user):
            raise AuthenticationFailedError(OTHER_AUTHORIZATION_ID)
        self.authenticated = Authenticated.user(user)
        return b""


def _hashed(password: str) -> bytes:
    """Return a value whose comparison does not depend on the password's length."""
    return hashlib.sha256(password.encode("utf-8", "replace")).digest()

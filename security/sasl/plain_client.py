"""PLAIN (RFC 4616), the client's side: one message with the user and the password.

The password is sent as it is. Only TLS protects it on its way.
"""

from __future__ import annotations

from typing import Final

from security.sasl.errors import SaslError


class PlainClient:
    """One login with a user name and a password. Raises SaslError if one of them contains a zero byte."""

    is_last: Final = False

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise SaslError("a user name or a password of PLAIN must not contain a zero byte")
        self._username = username
        self._password = password

    def first(self) -> bytes:
        """Return the only message. The identity to act as is empty: it is that of the user."""
        return b"\0%b\0%b" % (self._username.encode(), self._password.encode())

    def answer(self, message: bytes) -> bytes | None:
        """Return None: a server that answers has accepted the login."""
        return None

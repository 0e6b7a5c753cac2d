"""OAUTHBEARER (RFC 7628, KIP-255), the client's side: one message with a bearer token.

A server that refuses the token answers with a reason in JSON. The client acknowledges it with one byte, and the server
ends the login.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from security.sasl.errors import SaslError

_SEPARATOR: Final = "\x01"
_ACKNOWLEDGED: Final = b"\x01"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_RESERVED: Final = "auth"


class OAuthBearerClient:
    """One login with a token. extensions: more keys and values for the server (KIP-342).

    Raises SaslError for a token or an extension that the message cannot carry.
    """

    is_last: Final = False

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if _TOKEN.fullmatch(token) is None:
            raise SaslError("a token of OAUTHBEARER must consist of visible ASCII characters")
        for key, value in (extensions or {}).items():
            if _KEY.fullmatch(key) is None or key == _RESERVED or _VALUE.fullmatch(value) is None:
                raise SaslError(f"the extension {key!r} of OAUTHBEARER must have a name of letters, not {_RESERVED}")
        self._token = token
        self._extensions = extensions or {}

    def first(self) -> bytes:
        """Return the message with the token and the extensions."""
        pairs = "".join(f"{key}={value}{_SEPARATOR}" for key, value in self._extensions.items())
        return f"n,,{_SEPARATOR}auth=Bearer {self._token}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()

    def answer(self, message: bytes) -> bytes | None:
        """Return None after an empty message, which accepts the token; else the acknowledgement of the refusal."""
        return _ACKNOWLEDGED if message else None

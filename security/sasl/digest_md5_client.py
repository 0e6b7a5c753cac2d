"""DIGEST-MD5 (RFC 2831), the client's side: the login of ZooKeeper's servers.

The password is not sent. The server proves at the end that it knows the password, too. MD5 is weak by today's
measure, so use TLS as well. Brokers do not offer this mechanism: RFC 6331 has retired it.

    server   realm="…",nonce="…",charset=utf-8,algorithm=md5-sess
    client   username="…",realm="…",nonce="…",cnonce="…",nc=00000001,qop=auth,digest-uri="service/host",response=…
    server   rspauth=…
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from security.sasl.client_exchange import LoginRefusedError
from security.sasl.errors import SaslError, SaslMessageError
from security.secret import Secret, revealed

NAME: Final = "DIGEST-MD5"
_COUNT: Final = "00000001"  # how often the nonce was used
_QOP: Final = "auth"  # authentication only: the connection is not signed or encrypted
_DIRECTIVE: Final = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))\s*(?:,|$)', re.DOTALL)


def new_nonce() -> str:
    """Return a nonce of the client."""
    return secrets.token_hex(16)


class DigestMd5Client:
    """One login with a user name and a password; see ClientExchange. uri: the service and its host, as service/host."""

    def __init__(self, username: str, password: str, uri: str, nonce: Callable[[], str] = new_nonce) -> None:
        self._username = username
        self._password = Secret(password)
        self._uri = uri
        self._nonce = nonce()
        # What the server has to answer; None until the response was sent.
        self._proof: str | None = None

    @property
    def is_last(self) -> bool:
        """See `ClientExchange`: the server proves that it knows the password, in answer to the last message."""
        return False

    def first(self) -> bytes:
        """Return the first message, which is empty: the server begins."""
        return b""

    def answer(self, message: bytes) -> bytes | None:
        """Return the response to the server's challenge; None if the server's proof is right. Raises SaslError."""
        directives = _parsed(message)
        if self._proof is None:
            return self._respond(directives)
        proof = directives.get("rspauth")
        if proof is None:
            raise LoginRefusedError(f"{NAME}: the server does not prove that it knows the password")
        if not hmac.compare_digest(proof.encode(), self._proof.encode()):
            raise SaslError(f"{NAME}: the server does not know the password, so it is not the right server")
        return None

    def _respond(self, challenge: Mapping[str, str]) -> bytes:
        server_nonce = challenge.get("nonce")
        if not server_nonce or challenge.get("algorithm") != "md5-sess":
            raise SaslMessageError(f"{NAME}: the challenge must contain a nonce and algorithm=md5-sess")
        if _QOP not in challenge.get("qop", _QOP).replace(" ", "").split(","):
            raise SaslMessageError(f"{NAME}: the server does not offer qop={_QOP}")
        realm = challenge.get("realm", "")
        is_utf8 = challenge.get("charset") == "utf-8"
        key = self._key(realm, server_nonce, is_utf8=is_utf8)
        response = self._digest(key, server_nonce, f"AUTHENTICATE:{self._uri}")
        self._proof = self._digest(key, server_nonce, f":{self._uri}")
        text = (
            f"username={_quoted(self._username)},realm={_quoted(realm)},nonce={_quoted(server_nonce)},"
            f"nc={_COUNT},cnonce={_quoted(self._nonce)},digest-uri={_quoted(self._uri)},"
            f"response={response},qop={_QOP}"
        )
        return f"charset=utf-8,{text}".encode() if is_utf8 else _encoded(text)

    def _key(self, realm: str, server_nonce: str, *, is_utf8: bool) -> str:
        """Return the hexadecimal hash of A1, which contains the password."""
        parts = [_in_hash(part, is_utf8=is_utf8) for part in (self._username, realm, revealed(self._password))]
        return _md5(_md5_bytes(b":".join(parts)) + f":{server_nonce}:{self._nonce}".encode())

    def _digest(self, key: str, server_nonce: str, a2: str) -> str:
        hashed = _md5(a2.encode())
        return _md5(f"{key}:{server_nonce}:{_COUNT}:{self._nonce}:{_QOP}:{hashed}".encode())


def _parsed(message: bytes) -> dict[str, str]:
    """Return the directives of a message; the first one of each name."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        text = message.decode("latin-1")
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise SaslMessageError(f"{NAME}: the server's message is not a list of name=value")
        value = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL)
        found.setdefault(match[1].lower(), value)
        at = match.end()
    return found


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _encoded(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise SaslError(f"{NAME}: the server accepts only characters of ISO 8859-1 in user names") from None


def _in_hash(text: str, *, is_utf8: bool) -> bytes:
    """Encode a part of A1: in ISO 8859-1 if possible, as RFC 2831 has it, else in UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        if is_utf8:
            return text.encode()
        raise SaslError(f"{NAME}: the server accepts only characters of ISO 8859-1 in names and passwords") from None


def _md5_bytes(data: bytes) -> bytes:
    try:
        return hashlib.md5(data).digest()
    except ValueError:  # OpenSSL in FIPS mode
        raise SaslError(f"{NAME}: this machine's OpenSSL does not allow MD5") from None


def _md5(data: bytes) -> str:
    return _md5_bytes(data).hex()

"""Hashes of passwords and of tokens, as a file of users contains them.

    $scrypt$ln=14,r=8,p=5$<salt>$<key>      of a password: scrypt (RFC 7914) with N = 2**ln, as PHC's string format
    $sha256$<hexadecimal digits>            of a token: tokens are random and long, so a fast hash is enough

Salt and key are base64 without padding. The parameters are bounded, so that a line of a file cannot take all memory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple, Self

from security.secret import hides

_SCRYPT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{8,86})\$([A-Za-z0-9+/]{22,86})", re.ASCII
)
_SHA256: Final = re.compile(r"\$sha256\$([0-9a-fA-F]{64})")
_MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024
_MAX_WORK: Final = 1 << 21
"""Of N * r * p: about two seconds."""
_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32


class HashFormatError(ValueError):
    """A text is not a hash. The message does not show the text."""


@hides("salt", "key")
class ScryptHash(NamedTuple):
    """The hash of a password."""

    log2_n: int
    r: int
    p: int
    salt: bytes
    key: bytes

    @classmethod
    def of_password(cls, password: str, *, salt: bytes | None = None, log2_n: int = 14, r: int = 8, p: int = 5) -> Self:
        """Return the hash of a password. Without `salt`, it is random. Takes some tenths of a second, and 16 MiB."""
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        return cls(log2_n, r, p, salt, _scrypt(password, salt, log2_n, r, p, _KEY_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `text`. Raises HashFormatError."""
        found = _SCRYPT.fullmatch(text)
        if found is None:
            raise HashFormatError("must be $scrypt$ln=..,r=..,p=..$salt$key, as `ottla users hash` prints it")
        log2_n, r, p = (int(number) for number in found.groups()[:3])
        if not (10 <= log2_n <= 20 and r > 0 and p > 0):
            raise HashFormatError("ln must be from 10 to 20, r and p at least 1")
        if 128 * r << log2_n > _MAX_MEMORY_BYTES or r * p << log2_n > _MAX_WORK:
            raise HashFormatError("ln, r and p must not need more than 64 MiB, and N * r * p must not exceed 2**21")
        return cls(log2_n, r, p, _decoded(found[4]), _decoded(found[5]))

    def __str__(self) -> str:
        return f"$scrypt$ln={self.log2_n},r={self.r},p={self.p}${_encoded(self.salt)}${_encoded(self.key)}"

    def verifies(self, password: str) -> bool:
        """Return whether this is the password. Takes some tenths of a second: not to be called in the event loop."""
        key = _scrypt(password, self.salt, self.log2_n, self.r, self.p, len(self.key))
        return hmac.compare_digest(key, self.key)


def token_digest(token: str) -> bytes:
    """Return the digest of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def parse_token_digest(text: str) -> bytes:
    """Return the digest in `$sha256$<digits>`. Raises HashFormatError."""
    found = _SHA256.fullmatch(text)
    if found is None:
        raise HashFormatError("must be $sha256$ and the SHA-256 of the token in 64 hexadecimal digits")
    return bytes.fromhex(found[1])


def _scrypt(password: str, salt: bytes, log2_n: int, r: int, p: int, length: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogateescape"),
        salt=salt,
        n=1 << log2_n,
        r=r,
        p=p,
        maxmem=2 * _MAX_MEMORY_BYTES,
        dklen=length,
    )


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise HashFormatError("salt and key must be base64 without padding") from None

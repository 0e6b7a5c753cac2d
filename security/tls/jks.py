"""Java's own key store format, JKS: reading only.

    magic 0xFEEDFEED, version (1 or 2), number of entries: 4 bytes each, big-endian
    entry: tag (1 private key, 2 trusted certificate), alias, 8 bytes of time, then
        tag 1: length and bytes of an EncryptedPrivateKeyInfo (DER), number of certificates, certificates
        tag 2: one certificate
    certificate: its type, which version 1 omits, then length and bytes (DER)
    SHA-1 of: the password in UTF-16, "Mighty Aphrodite", everything before

Text has a length of 2 bytes. A private key is 20 bytes of salt, the key XOR a stream of SHA-1 hashes, and a SHA-1 over
the password and the key. The format is obsolete (Java writes PKCS12 since 9). The library that reads it, pyjks, has had
no release since 2020, and its fork purejks only one (2026), which needs four more packages: therefore this file.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from itertools import islice

MAGIC = b"\xfe\xed\xfe\xed"
_WHITENER = b"Mighty Aphrodite"
_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")  # the algorithm's object identifier, in DER
_HASH_BYTES = 20
_PRIVATE_KEY, _CERTIFICATE = 1, 2


class JksError(Exception):
    """The bytes are no JKS store, or the password is wrong."""


@dataclass(frozen=True, slots=True)
class JksKey:
    """One private key: `protected`, as the store contains it, and its certificates (DER), the key's own first."""

    alias: str
    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]

    def unprotect(self, password: str) -> bytes:
        """Return the key as PKCS8 in DER. Raises JksError for a wrong password."""
        secret = password.encode("utf-16-be")
        at = self.protected.find(_KEY_PROTECTOR)
        if at < 0:
            raise JksError("the private key is not protected by the algorithm of JKS")
        sealed = self.protected[at + len(_KEY_PROTECTOR) :].removeprefix(b"\x05\x00")
        sealed = sealed[_der_header_bytes(sealed) :]
        salt, body, check = sealed[:_HASH_BYTES], sealed[_HASH_BYTES:-_HASH_BYTES], sealed[-_HASH_BYTES:]
        stream = bytearray()
        digest = salt
        while len(stream) < len(body):
            digest = hashlib.sha1(secret + digest).digest()
            stream += digest
        key = bytes(left ^ right for left, right in zip(body, islice(stream, len(body)), strict=True))
        if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
            raise JksError("the password of the private key is wrong")
        return key


@dataclass(frozen=True, slots=True)
class JksStore:
    """The private keys and the trusted certificates (DER) of a store."""

    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Read a store. password: None skips the check of the whole, as in Java. Raises JksError."""
    if password is not None:
        expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + data[:-_HASH_BYTES]).digest()
        if not hmac.compare_digest(expected, data[-_HASH_BYTES:]):
            raise JksError("the password is wrong, or the file is damaged")
    try:
        return _Reader(data).store()
    except (struct.error, UnicodeDecodeError):
        raise JksError("the file is damaged") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._has_types = True

    def store(self) -> JksStore:
        if self._take(4) != MAGIC:
            raise JksError("the file is no JKS store")
        self._has_types = self._number() != 1
        keys: list[JksKey] = []
        trusted: list[bytes] = []
        for _ in range(self._number()):
            tag = self._number()
            alias = self._text()
            self._take(8)
            if tag == _PRIVATE_KEY:
                protected = self._take(self._number())
                chain = tuple(self._certificate() for _ in range(self._number()))
                keys.append(JksKey(alias, protected, chain))
            elif tag == _CERTIFICATE:
                trusted.append(self._certificate())
            else:
                raise JksError(f"the store has an entry of the unknown kind {tag}")
        return JksStore(tuple(keys), tuple(trusted))

    def _certificate(self) -> bytes:
        if self._has_types:
            self._text()
        return self._take(self._number())

    def _text(self) -> str:
        (length,) = struct.unpack(">H", self._take(2))
        return self._take(length).decode()

    def _number(self) -> int:
        number: int = struct.unpack(">I", self._take(4))[0]
        return number

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise JksError("the file ends too early")
        return self._data[start : self._at]


def _der_header_bytes(value: bytes) -> int:
    """Return the size of the tag and the length of a DER value."""
    if len(value) < 2:
        raise JksError("the file is damaged")
    return 2 if value[1] < 0x80 else 2 + (value[1] & 0x7F)

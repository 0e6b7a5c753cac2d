"""Passwords in dynamic settings, as Kafka stores them in ZooKeeper: encrypted with `password.encoder.secret` (KIP-226).

    initializationVector:…,keyLength:128,salt:…,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,
    cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:6,encryptedPassword:…

One line without spaces; binary values are base64. The key is derived from the secret with the salt.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable
from typing import Final

CIPHER: Final = "AES/CBC/PKCS5Padding"
KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
KEY_FACTORIES: Final = {
    KEY_FACTORY: "sha512",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA224": "sha224",
    "PBKDF2WithHmacSHA1": "sha1",
}
KEY_BITS: Final = (128, 192, 256)
MAX_ITERATIONS: Final = 1_000_000
"""A larger number would stop the event loop for seconds. Kafka's default is 4096."""
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16


class PasswordError(Exception):
    """A password cannot be encrypted or decrypted. The text contains no password."""


class PasswordEncoder:
    """Encrypts and decrypts passwords with one secret."""

    __slots__ = ("_iterations", "_key_bits", "_key_factory", "_random", "_secret")

    def __init__(
        self,
        secret: str,
        *,
        key_factory: str = KEY_FACTORY,
        key_bits: int = 128,
        iterations: int = 4096,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """random: returns random bytes."""
        self._secret = secret.encode()
        self._key_factory = key_factory
        self._key_bits = key_bits
        self._iterations = iterations
        self._random = random

    def encode(self, password: str) -> str:
        """Return the encrypted form. Raises PasswordError, for example if cryptography is not installed."""
        salt, vector = self._random(_SALT_BYTES), self._random(_BLOCK_BYTES)
        clear = password.encode()
        missing = _BLOCK_BYTES - len(clear) % _BLOCK_BYTES
        key = self._key(self._key_factory, salt, self._iterations, self._key_bits)
        encrypted = _crypt(key, vector, clear + bytes([missing]) * missing, encrypt=True)
        fields = {
            "initializationVector": _base64(vector),
            "keyLength": self._key_bits,
            "salt": _base64(salt),
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": CIPHER,
            "iterations": self._iterations,
            "passwordLength": len(password),
            "encryptedPassword": _base64(encrypted),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """Return the password. Raises PasswordError if the text is of another secret or cipher, or damaged."""
        fields = dict(field.partition(":")[::2] for field in text.split(","))
        if fields.get("cipherAlgorithm", CIPHER) != CIPHER:
            raise PasswordError(f"only passwords encrypted with {CIPHER} can be read")
        try:
            key = self._key(
                fields["keyFactoryAlgorithm"],
                base64.b64decode(fields["salt"]),
                int(fields["iterations"]),
                int(fields["keyLength"]),
            )
            vector = base64.b64decode(fields["initializationVector"])
            clear = _crypt(key, vector, base64.b64decode(fields["encryptedPassword"]), encrypt=False)
            password = clear[: -clear[-1]].decode()
            if len(password) == int(fields["passwordLength"]):
                return password
        except (KeyError, ValueError, IndexError, OverflowError):
            pass
        raise PasswordError("the password was encrypted with another secret, or is damaged")

    def _key(self, key_factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        if bits not in KEY_BITS:  # checked first: a long key would take as much time as many iterations
            raise PasswordError(
                f"the key length of an encrypted password must be one of {', '.join(map(str, KEY_BITS))}"
            )
        if iterations > MAX_ITERATIONS:
            raise PasswordError(f"an encrypted password must have at most {MAX_ITERATIONS} iterations")
        return hashlib.pbkdf2_hmac(KEY_FACTORIES[key_factory], self._secret, salt, iterations, bits // 8)


def _crypt(key: bytes, vector: bytes, data: bytes, *, encrypt: bool) -> bytes:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # optional
    except ImportError:
        raise PasswordError("needs the package cryptography: pip install 'ottla[security]'") from None
    cipher = Cipher(algorithms.AES(key), modes.CBC(vector))
    crypting = cipher.encryptor() if encrypt else cipher.decryptor()
    return crypting.update(data) + crypting.finalize()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()

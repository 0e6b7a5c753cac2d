"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): keys, proofs, and the four messages. No state, no sockets.

    client-first:  n,[a=authzid],[m=…,]n=user,r=client nonce[,extensions]
    server-first:  [m=…,]r=client nonce + server nonce,s=salt,i=iterations[,extensions]
    client-final:  c=gs2 header,r=nonce[,extensions],p=proof
    server-final:  v=signature[,extensions]  or  e=error

`,` and `=` in names are `=2C` and `=3D`. The proof covers the bare client-first message, server-first, and client-final
without its proof, as they were sent: each message keeps its text. Kafka does not normalize passwords (no SASLprep),
binds no channel, and asks for at least 4096 iterations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from security.sasl.errors import SaslMessageError
from security.secret import hides

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Kafka refuses credentials outside of these limits."""
TOKEN_AUTH: Final = "tokenauth"
"""The extension of the first message that makes `user` the id of a delegation token."""

NO_BINDING: Final = "n,,"
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_NONCE_LENGTH: Final = 26  # 26 characters of 36 hold 134 random bits

_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
_VALUE: Final = r"[^\x00,]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9/+]*={0,2}"
_ITERATIONS: Final = r"[0-9]{1,9}"
_EXTENSIONS: Final = rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
_MANDATORY: Final = rf"(?:m={_VALUE},)?"
_CLIENT_FIRST: Final = (
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>{_MANDATORY}n=(?P<user>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_SERVER_FIRST: Final = (
    rf"{_MANDATORY}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>{_ITERATIONS}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = (
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}"


class ScramMechanism(NamedTuple):
    """One SCRAM mechanism. type: its number in the SCRAM APIs (KIP-554). hash_name: as hashlib has it."""

    name: str
    type: int
    hash_name: str

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return Hi(password, salt, iterations). It takes milliseconds."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """Return the key that a client proves to have."""
        return self.hmac(salted_password, b"Client Key")

    def server_key(self, salted_password: bytes) -> bytes:
        """Return the key that a server proves to have."""
        return self.hmac(salted_password, b"Server Key")

    def stored_key(self, client_key: bytes) -> bytes:
        """Return the hash of the client key, which a server stores."""
        return hashlib.new(self.hash_name, client_key).digest()

    def client_proof(self, client_key: bytes, auth_message: bytes) -> bytes:
        """Return the proof in the client's final message."""
        return _xor(client_key, self.hmac(self.stored_key(client_key), auth_message))

    def proves(self, proof: bytes, stored_key: bytes, auth_message: bytes) -> bool:
        """Return whether a proof is that of the client key whose hash is `stored_key`."""
        signature = self.hmac(stored_key, auth_message)
        if len(proof) != len(signature):
            return False
        return hmac.compare_digest(self.stored_key(_xor(proof, signature)), stored_key)

    def server_signature(self, server_key: bytes, auth_message: bytes) -> bytes:
        """Return the signature in the server's final message."""
        return self.hmac(server_key, auth_message)

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return the HMAC with the hash of this mechanism."""
        return hmac.digest(key, data, self.hash_name)


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS: Final[Mapping[str, ScramMechanism]] = {
    mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)
}


@hides("salt", "stored_key", "server_key")
class ScramCredential(NamedTuple):
    """What a server stores of a password. A client that knows `server_key` and `stored_key` can pose as the server."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_salted_password(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Return the credential of a password that a client has salted."""
        stored_key = mechanism.stored_key(mechanism.client_key(salted_password))
        return cls(salt, stored_key, mechanism.server_key(salted_password), iterations)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, password: str, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        """Return the credential of a password. Without `salt`, it is random. Takes milliseconds."""
        salt = secrets.token_bytes(20) if salt is None else salt
        salted = mechanism.salted_password(password, salt, iterations)
        return cls.of_salted_password(mechanism, salted, salt, iterations)

    def text(self) -> str:
        """Return the credential as Kafka stores it in the registry."""
        return (
            f"salt={_to_base64(self.salt)},stored_key={_to_base64(self.stored_key)},"
            f"server_key={_to_base64(self.server_key)},iterations={self.iterations}"
        )

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Read what `text` returns. Raises SaslMessageError without the text."""
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        if sorted(fields) != ["iterations", "salt", "server_key", "stored_key"]:
            raise SaslMessageError("a SCRAM credential must consist of salt, stored_key, server_key and iterations")
        if not re.fullmatch(_ITERATIONS, fields["iterations"]):
            raise SaslMessageError("the iterations of a SCRAM credential must be a number of at most 9 digits")
        keys = [_from_base64(fields[name]) for name in ("salt", "stored_key", "server_key")]
        return cls(keys[0], keys[1], keys[2], int(fields["iterations"]))


class ClientFirst(NamedTuple):
    """The client's first message. bare: its text without the GS2 header.

    has_mandatory: it has an extension (`m=`) that a server must understand. Kafka understands none: the proof fails.
    """

    user: str
    nonce: str
    authzid: str
    extensions: Mapping[str, str]
    gs2_header: str
    bare: str
    has_mandatory: bool = False

    @classmethod
    def of(cls, user: str, nonce: str, extensions: Mapping[str, str] | None = None) -> ClientFirst:
        """Return the message of a client, for example with the extensions {"tokenauth": "true"}."""
        extensions = extensions or {}
        appended = "".join(f",{name}={value}" for name, value in extensions.items())
        return cls(user, nonce, "", extensions, NO_BINDING, f"n={to_saslname(user)},r={nonce}{appended}")

    def encode(self) -> bytes:
        """Return the bytes to send."""
        return f"{self.gs2_header}{self.bare}".encode()

    @classmethod
    def parse(cls, message: bytes) -> ClientFirst:
        """Read a message. Raises SaslMessageError, also for channel binding (`y`, `p=`), which Kafka does not have."""
        found = _matched(_CLIENT_FIRST, message, "first client")
        return cls(
            user=from_saslname(found["user"]),
            nonce=found["nonce"],
            authzid=from_saslname(found["authzid"] or ""),
            extensions=_extensions(found["extensions"]),
            gs2_header=found["gs2"],
            bare=found["bare"],
            has_mandatory=found["bare"].startswith("m="),
        )


class ServerFirst(NamedTuple):
    """The server's first message. nonce: that of the client and that of the server, joined."""

    nonce: str
    salt: bytes
    iterations: int
    text: str

    @classmethod
    def of(cls, nonce: str, salt: bytes, iterations: int) -> ServerFirst:
        """Return the message of a server."""
        return cls(nonce, salt, iterations, f"r={nonce},s={_to_base64(salt)},i={iterations}")

    def encode(self) -> bytes:
        """Return the bytes to send."""
        return self.text.encode()

    @classmethod
    def parse(cls, message: bytes) -> ServerFirst:
        """Read a message. Raises SaslMessageError."""
        found = _matched(_SERVER_FIRST, message, "first server")
        return cls(found["nonce"], _from_base64(found["salt"]), int(found["iterations"]), found[0])


@hides("proof")
class ClientFinal(NamedTuple):
    """The client's final message. without_proof: its text up to the proof, which the proof covers."""

    nonce: str
    proof: bytes
    without_proof: str

    @staticmethod
    def text_without_proof(nonce: str, gs2_header: str = NO_BINDING) -> str:
        """Return the part of the message that the proof covers."""
        return f"c={_to_base64(gs2_header.encode())},r={nonce}"

    def encode(self) -> bytes:
        """Return the bytes to send."""
        return f"{self.without_proof},p={_to_base64(self.proof)}".encode()

    @classmethod
    def parse(cls, message: bytes) -> ClientFinal:
        """Read a message. Raises SaslMessageError."""
        found = _matched(_CLIENT_FINAL, message, "final client")
        return cls(found["nonce"], _from_base64(found["proof"]), found["without_proof"])


@hides("signature")
class ServerFinal(NamedTuple):
    """The server's final message: its signature, or an error."""

    signature: bytes
    error: str | None = None

    def encode(self) -> bytes:
        """Return the bytes to send."""
        if self.error is not None:
            return f"e={self.error}".encode()
        return f"v={_to_base64(self.signature)}".encode()

    @classmethod
    def parse(cls, message: bytes) -> ServerFinal:
        """Read a message. Raises SaslMessageError."""
        found = _matched(_SERVER_FINAL, message, "final server")
        if found["error"] is not None:
            return cls(b"", found["error"])
        return cls(_from_base64(found["signature"]))


def auth_message(client_first_bare: str, server_first: str, client_final_without_proof: str) -> bytes:
    """Return the bytes that proof and signature cover."""
    return f"{client_first_bare},{server_first},{client_final_without_proof}".encode()


def new_nonce(choice: Callable[[str], str] = secrets.choice) -> str:
    """Return a random nonce. choice: returns a random character; tests inject it."""
    return "".join(choice(_ALPHABET) for _ in range(_NONCE_LENGTH))


def to_saslname(name: str) -> str:
    """Escape a name for a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def from_saslname(name: str) -> str:
    """Undo `to_saslname`. The name has been checked by a message's format."""
    return name.replace("=2C", ",").replace("=3D", "=")


def _matched(pattern: str, message: bytes, which: str) -> re.Match[str]:
    try:
        found = re.fullmatch(pattern, str(message, "utf-8"))  # compiled at the first use: a broker starts faster
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslMessageError(f"the {which} message does not have the format of SCRAM")
    return found


def _extensions(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split(",") if part)


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error, or a character that is not ASCII
        raise SaslMessageError("a field of a SCRAM message is not base64") from None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))

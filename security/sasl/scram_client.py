"""SCRAM (RFC 5802), the client's side: it proves to know the password, and checks that the server knows it, too.

The password is not sent. A server that does not know the user's credential cannot sign the exchange, and is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from security.sasl.client_exchange import LoginRefusedError
from security.sasl.errors import SaslError
from security.sasl.scram import (
    MIN_ITERATIONS,
    TOKEN_AUTH,
    ClientFinal,
    ClientFirst,
    ScramMechanism,
    ServerFinal,
    ServerFirst,
    auth_message,
    new_nonce,
)

MOST_ITERATIONS: Final = 1_000_000
"""A server that asks for more is refused: the computation takes half a second here."""
QUICK_ITERATIONS: Final = 8192
"""More take longer than 10 milliseconds, so an event loop leaves them to a thread. Kafka's default is 4096."""


class ScramClient:
    """One login with a user name and a password, or with the id and the HMAC of a delegation token."""

    is_last: Final = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        *,
        is_token: bool = False,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        extensions: Mapping[str, str] = {TOKEN_AUTH: "true"} if is_token else {}
        self._first = ClientFirst.of(username, nonce(), extensions)
        # What the server has to sign; None until the proof was sent.
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """Return the message with the user name and the client's nonce."""
        return self._first.encode()

    def takes_long(self, message: bytes) -> bool:
        """Whether `answer` takes too long for an event loop. Call it in a thread then. Raises SaslError."""
        return self._signature is None and ServerFirst.parse(message).iterations > QUICK_ITERATIONS

    def answer(self, message: bytes) -> bytes | None:
        """Return the proof for the server's challenge; None if the server's signature is right."""
        if self._signature is None:
            return self._prove(ServerFirst.parse(message))
        final = ServerFinal.parse(message)
        if final.error is not None:
            raise LoginRefusedError(f"{self._mechanism.name}: {final.error}")
        if not hmac.compare_digest(final.signature, self._signature):
            raise SaslError(f"{self._mechanism.name}: the server does not know the password, so it is not the broker")
        return None

    def _prove(self, challenge: ServerFirst) -> bytes:
        name = self._mechanism.name
        if not challenge.nonce.startswith(self._first.nonce) or challenge.nonce == self._first.nonce:
            raise SaslError(f"{name}: the server's nonce does not continue the client's")
        if not MIN_ITERATIONS <= challenge.iterations <= MOST_ITERATIONS:
            allowed = f"between {MIN_ITERATIONS} and {MOST_ITERATIONS}"
            raise SaslError(f"{name}: the server asks for {challenge.iterations} iterations, not {allowed}")
        salted = self._mechanism.salted_password(self._password, challenge.salt, challenge.iterations)
        without_proof = ClientFinal.text_without_proof(challenge.nonce)
        signed = auth_message(self._first.bare, challenge.text, without_proof)
        self._signature = self._mechanism.server_signature(self._mechanism.server_key(salted), signed)
        proof = self._mechanism.client_proof(self._mechanism.client_key(salted), signed)
        return ClientFinal(challenge.nonce, proof, without_proof).encode()

"""SCRAM, the server's side: two messages each way.

With the extension tokenauth=true of the first message, the user is the id of a delegation token (KIP-48): its password
is its HMAC in base64, and its owner is logged in. As in Kafka, an unknown user fails at the first message, the channel
binding in the final message is not compared, and an extension that a server must understand (`m=`) fails with the
proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from security.principal import Principal
from security.sasl.errors import AuthenticationFailedError, SaslMessageError, invalid_credentials
from security.sasl.scram import (
    TOKEN_AUTH,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ScramMechanism,
    ServerFinal,
    ServerFirst,
    auth_message,
    new_nonce,
)
from security.sasl.server import OTHER_AUTHORIZATION_ID, Authenticated, SaslServer


class ScramToken(NamedTuple):
    """A delegation token as SCRAM sees it. expires_ms: since 1970."""

    credential: ScramCredential
    owner: Principal
    expires_ms: int


FindCredential: TypeAlias = Callable[[str], ScramCredential | None]
_TOKEN_LOGIN = f"{TOKEN_AUTH}=true".encode()

FindToken: TypeAlias = Callable[[str], ScramToken | None]


class ScramServer(SaslServer):
    """One exchange of SCRAM."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_credential: FindCredential,
        find_token: FindToken = lambda token_id: None,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        """find_credential: of a user, for this mechanism. find_token: a token by its id. nonce: a random text."""
        self._mechanism = mechanism
        self._find_credential = find_credential
        self._find_token = find_token
        self._nonce = nonce
        self._first: tuple[ClientFirst, ServerFirst, ScramCredential, Authenticated] | None = None

    def takes_time(self, message: bytes) -> bool:
        """See `SaslServer`. The first login with a token computes its keys, which takes milliseconds."""
        return self._first is None and _TOKEN_LOGIN in message.lower()

    def step(self, message: bytes) -> bytes:
        """See `SaslServer`."""
        if self.authenticated is not None:
            raise SaslMessageError("the exchange has ended")
        try:
            return self._step(message)
        except SaslMessageError as error:
            raise self._invalid(str(error)) from None

    def _step(self, message: bytes) -> bytes:
        if self._first is None:
            return self._begin(ClientFirst.parse(message))
        return self._finish(ClientFinal.parse(message), *self._first)

    def _begin(self, client: ClientFirst) -> bytes:
        credential, authenticated = self._credential(client)
        if client.authzid not in ("", client.user):
            raise AuthenticationFailedError(OTHER_AUTHORIZATION_ID)
        server = ServerFirst.of(client.nonce + self._nonce(), credential.salt, credential.iterations)
        self._first = client, server, credential, authenticated
        return server.encode()

    def _credential(self, client: ClientFirst) -> tuple[ScramCredential, Authenticated]:
        if client.extensions.get(TOKEN_AUTH, "").lower() == "true":
            token = self._find_token(client.user)
            if token is None:
                raise self._invalid("no delegation token has this id")
            return token.credential, Authenticated(token.owner, token.expires_ms, is_token=True)
        credential = self._find_credential(client.user)
        if credential is None:
            raise self._invalid(f"user {client.user!r} has no credential for this mechanism")
        return credential, Authenticated.user(client.user)

    def _finish(
        self,
        final: ClientFinal,
        client: ClientFirst,
        server: ServerFirst,
        credential: ScramCredential,
        who: Authenticated,
    ) -> bytes:
        covered = auth_message(client.bare, server.text, final.without_proof)
        is_proved = self._mechanism.proves(final.proof, credential.stored_key, covered)
        if final.nonce != server.nonce or client.has_mandatory or not is_proved:
            raise self._invalid(f"wrong password of {client.user!r}")
        self.authenticated = who
        return ServerFinal(self._mechanism.server_signature(credential.server_key, covered)).encode()

    def _invalid(self, reason: str) -> AuthenticationFailedError:
        return invalid_credentials(self._mechanism.name, reason)

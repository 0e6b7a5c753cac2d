"""The logins of the console (ottla.console.authentication): who sends a request, by its Authorization header.

    Authorization: Basic <base64 of user:password>      scram, password-file
    Authorization: Bearer <token>                       oauthbearer, token-file

Every request carries its login: the console has no sessions and no cookies. A certificate of the client is the fifth
way; it needs no header.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.authentication.scram_credentials import ScramCredentials
from broker.console.credential_file import CredentialFile
from broker.console.passwords import (
    Client,
    Passwords,
    Source,
    scram_sources,
    unknown_user_of_file,
)
from security.password_hash import ScryptHash, parse_token_digest, token_digest
from security.principal import USER, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.settings.config import BrokerConfig

REALM: Final = 'realm="Ottla", charset="UTF-8"'


class LoginFailedError(Exception):
    """A request has a login that is not valid. The text is for the audit log; it contains no password and no token."""

    def __init__(self, mechanism: str, reason: str) -> None:
        """mechanism: as the audit log names it; "" if it is not known."""
        super().__init__(reason)
        self.mechanism = mechanism


class LoggedIn(NamedTuple):
    """A user, and how it has proved to be that user."""

    principal: Principal
    mechanism: str


class ConsoleLogin:
    """The logins of one console."""

    def __init__(self, config: BrokerConfig, credentials: ScramCredentials | None, now_ms: Callable[[], int]) -> None:
        """credentials: needed for `scram`. now_ms: the clock of tokens. Raises ConfigError and BrokerStartError."""
        methods = config.ottla_console_authentication
        self.takes_certificates = "certificate" in methods
        self._takes_passwords = bool({"scram", "password-file"} & set(methods))
        self._takes_tokens = bool({"oauthbearer", "token-file"} & set(methods))
        self._password_file = self._token_file = None
        sources: list[Source] = []
        if "password-file" in methods:
            name = "ottla.console.password.file"
            self._password_file = users = CredentialFile(name, config.ottla_console_password_file, ScryptHash.parse)
            sources.append(Source(lambda user: users.hashes.get(user, ()), unknown_user_of_file()))
        if "scram" in methods:
            assert credentials is not None
            sources += scram_sources(credentials)
        self._passwords = Passwords(sources)
        if "token-file" in methods:
            name = "ottla.console.token.file"
            self._token_file = CredentialFile(name, config.ottla_console_token_file, parse_token_digest)
        self._validators = self._validate = None
        if "oauthbearer" in methods:
            from broker.authentication.settings import token_settings  # only consoles with signed tokens need these
            from broker.authentication.token_validators import TokenValidators

            self._validators = TokenValidators(now_ms)
            self._validate = self._validators.of(token_settings(config.of_console()))

    async def start(self) -> None:
        """Read the files and the key sets of token issuers. Raises ConfigError and BrokerStartError."""
        for file in self._files:
            file.read()
        if self._validators is not None:
            await self._validators.start()

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work to run while the broker serves."""
        watching = [file.watch() for file in self._files]
        return watching if self._validators is None else [*watching, *self._validators.services()]

    @property
    def challenges(self) -> list[str]:
        """The values of WWW-Authenticate."""
        found = [f"Basic {REALM}"] if self._takes_passwords else []
        return [*found, 'Bearer realm="Ottla"'] if self._takes_tokens else found

    async def user(self, authorization: str, client: Client) -> LoggedIn:
        """Return the user of an Authorization header. Raises LoginFailedError, and see `Passwords.are_right`."""
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() == "basic" and self._takes_passwords:
            return await self._user_of_password(text.strip(), client)
        if scheme.lower() == "bearer" and self._takes_tokens:
            return self._user_of_token(text.strip())
        raise LoginFailedError("", "the scheme of the Authorization header is not enabled")

    async def _user_of_password(self, text: str, client: Client) -> LoggedIn:
        try:
            user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise LoginFailedError("Basic", "the Authorization header is not base64 of UTF-8") from None
        if not (user and colon and password):
            raise LoginFailedError("Basic", "the Authorization header must contain a user and a password")
        if not await self._passwords.are_right(user, password, client):
            raise LoginFailedError("Basic", f"invalid user name or password, user {user!r}")
        return LoggedIn(Principal(USER, user), "Basic")

    def _user_of_token(self, token: str) -> LoggedIn:
        if self._token_file is not None:
            digest = token_digest(token)  # a client that does not know a token cannot choose its digest
            for user, digests in self._token_file.hashes.items():
                if digest in digests:
                    return LoggedIn(Principal(USER, user), "Bearer")
        if self._validate is None:
            raise LoginFailedError("Bearer", "the token is not in ottla.console.token.file")
        from security.sasl.oauthbearer_server import InvalidTokenError  # imported already, by the validator

        try:
            return LoggedIn(Principal(USER, self._validate(token).user), "Bearer")
        except InvalidTokenError as error:
            raise LoginFailedError("Bearer", f"the token is not valid: {error}") from None

    @property
    def _files(self) -> list[CredentialFile[Any]]:
        return [file for file in (self._password_file, self._token_file) if file is not None]

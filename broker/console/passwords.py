"""Passwords of HTTP's basic authentication: those of SCRAM users, and those of a file.

A client sends its password with every request, and a check takes milliseconds (SCRAM) or tenths of a second (scrypt).
So checks run in a thread, one at a time, and a password that was right is remembered as a keyed hash, until the user's
credential changes. A user is looked for in every source, and an unknown one costs as much as a wrong password.

Checks wait for each other, and anyone who reaches the port can cause them. So few may wait, fewer for each address, and
those of clients that have left are not run: aiohttp does not cancel the handler of a closed connection.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol, TypeAlias

from broker.authentication.scram_credentials import ScramCredentials
from security.password_hash import ScryptHash
from security.sasl.scram import MIN_ITERATIONS, SCRAM_MECHANISMS, ScramCredential, ScramMechanism

MAX_REMEMBERED = 1000
MAX_CHECKS: Final = 32
"""How many checks may run or wait. The last one waits for half a minute at most."""
MAX_CHECKS_OF_ADDRESS: Final = 8
"""The same for one address, which may be a proxy with several users."""


class TooManyChecksError(Exception):
    """Too many passwords wait for their check already."""


class Client(Protocol):
    """Who sends a password."""

    host: str
    """The address."""
    closed: bool
    """Whether it has left."""


class Credential(Protocol):
    """What is stored of a password. Equal credentials are those of the same password and salt."""

    def verifies(self, password: str) -> bool:
        """Return whether this is the password. Takes time."""


FindCredentials: TypeAlias = Callable[[str], Sequence[Credential]]
"""Returns the credentials of a user, any of which is enough."""


class Source(NamedTuple):
    """Where users are, and what a user is compared with who is not there."""

    find: FindCredentials
    nobody: Credential


class ScramPassword(NamedTuple):
    """The SCRAM credential of a user, for a client that sends its password as it is."""

    mechanism: ScramMechanism
    credential: ScramCredential

    def verifies(self, password: str) -> bool:
        """See `Credential`."""
        mechanism, stored = self.mechanism, self.credential
        salted = mechanism.salted_password(password, stored.salt, stored.iterations)
        found = mechanism.stored_key(mechanism.client_key(salted))
        return hmac.compare_digest(found, stored.stored_key)


def scram_sources(credentials: ScramCredentials) -> list[Source]:
    """Return the SCRAM users: a source for each mechanism, so that every user costs one check of each."""
    return [_scram_source(mechanism, credentials) for mechanism in SCRAM_MECHANISMS.values()]


def _scram_source(mechanism: ScramMechanism, credentials: ScramCredentials) -> Source:
    search = credentials.of(mechanism)

    def find(user: str) -> list[Credential]:
        found = search(user)
        return [] if found is None else [ScramPassword(mechanism, found)]

    return Source(find, unknown_scram_user(mechanism))


def unknown_scram_user(mechanism: ScramMechanism) -> Credential:
    """Return the credential of nobody."""
    keys = secrets.token_bytes(64), secrets.token_bytes(64)
    return ScramPassword(mechanism, ScramCredential(secrets.token_bytes(20), *keys, MIN_ITERATIONS))


def unknown_user_of_file() -> Credential:
    """Return the hash of nobody, with the parameters of `ottla users hash`."""
    return ScryptHash(14, 8, 5, secrets.token_bytes(16), secrets.token_bytes(32))


class Passwords:
    """Checks the passwords of users."""

    def __init__(self, sources: Sequence[Source], max_remembered: int = MAX_REMEMBERED) -> None:
        self._max_remembered = max_remembered
        self._sources = sources
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, Credential] = {}
        self._one_at_a_time = asyncio.Lock()
        self._checks: Counter[str] = Counter()

    async def are_right(self, user: str, password: str, client: Client) -> bool:
        """Return whether this is the password of a user.

        Raises TooManyChecksError, and ConnectionResetError if the client has left before the check.
        """
        name, secret = (text.encode("utf-8", "surrogateescape") for text in (user, password))
        digest = hmac.digest(self._key, len(name).to_bytes(4) + name + secret, "sha256")
        found = self._credentials(user)
        if self._is_remembered(digest, found):
            return True
        # A request that is cancelled must not end the wait for its thread: checks are one at a time.
        is_right = await asyncio.shield(self._in_turn(user, password, client, digest))
        if is_right is None:
            raise ConnectionResetError
        return is_right

    async def _in_turn(self, user: str, password: str, client: Client, digest: bytes) -> bool | None:
        """Return whether the password is right; None if the client has left, when mostly nobody waits any more."""
        with self._counted(client.host):
            async with self._one_at_a_time:
                if client.closed:
                    return None
                found = self._credentials(user)
                return self._is_remembered(digest, found) or await self._check(digest, found, password)

    @contextmanager
    def _counted(self, host: str) -> Iterator[None]:
        if self._checks.total() >= MAX_CHECKS or self._checks[host] >= MAX_CHECKS_OF_ADDRESS:
            raise TooManyChecksError
        self._checks[host] += 1
        try:
            yield
        finally:
            self._checks[host] -= 1
            if not self._checks[host]:
                del self._checks[host]

    def _credentials(self, user: str) -> list[tuple[Sequence[Credential], Credential]]:
        """Return the user's credentials in each source, with the one that stands for an unknown user there."""
        return [(source.find(user), source.nobody) for source in self._sources]

    def _is_remembered(self, digest: bytes, found: list[tuple[Sequence[Credential], Credential]]) -> bool:
        before = self._remembered.get(digest)
        return before is not None and any(before in credentials for credentials, _ in found)

    async def _check(self, digest: bytes, found: list[tuple[Sequence[Credential], Credential]], password: str) -> bool:
        compared = [one for credentials, nobody in found for one in credentials or (nobody,)]
        right = await asyncio.to_thread(_first_that_verifies, compared, password)
        if right is None or not any(right in credentials for credentials, _ in found):
            return False
        if len(self._remembered) >= self._max_remembered:
            self._remembered.clear()
        self._remembered[digest] = right
        return True


def _first_that_verifies(credentials: Sequence[Credential], password: str) -> Credential | None:
    return next((one for one in credentials if one.verifies(password)), None)

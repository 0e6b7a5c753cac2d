"""Delegation tokens (KIP-48): secrets of limited life, with which a client logs in by SCRAM as the owner of the token.

The password of a token is HMAC-SHA-512(delegation.token.secret.key, token id) in base64; it is stored nowhere. The rest
of a token is in the registry (`token_store`). The broker that is the controller removes expired tokens.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import random
from collections.abc import Callable, Collection

from broker.authentication.token_store import TokenStore
from broker.errors import BrokerError
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from protocol.error_codes import ErrorCode
from protocol.uuid import random_uuid, uuid_to_string
from registry.errors import NoNodeError, RegistryError
from registry.interface import Registry
from registry.znodes.delegation_tokens import DelegationTokenZnode
from security.principal import USER, Principal
from security.sasl.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from security.sasl.scram_server import FindToken, ScramToken

logger = logging.getLogger(__name__)


class DelegationTokenError(BrokerError):
    """A request about a token is refused."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class DelegationTokens:
    """The tokens that this broker knows, and their changes."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        now_ms: Callable[[], int],
        backoff: Backoff,
        *,
        is_controller: Callable[[], bool] = lambda: False,
        rng: random.Random | None = None,
    ) -> None:
        """rng: of the ids; it must not be predictable. is_controller: whether this broker removes expired tokens."""
        key = config.delegation_token_secret_key or config.delegation_token_master_key or ""
        self._key = key.encode()
        self._config = config
        self._now_ms = now_ms
        self._is_controller = is_controller
        self._random = rng or random.SystemRandom()
        self._store = TokenStore(registry, now_ms, backoff, self._forget_credentials)
        self._credentials: dict[tuple[str, str], ScramCredential] = {}  # by token id and mechanism

    # -- logins --------------------------------------------------------------------------------------------------------

    @property
    def is_enabled(self) -> bool:
        """Whether there is a key for tokens."""
        return bool(self._key)

    def of(self, mechanism: ScramMechanism) -> FindToken:
        """Return the search for a token that logs in by a mechanism."""

        def find(token_id: str) -> ScramToken | None:
            token = self._store.find(token_id)
            if token is None:
                return None
            credential = self._credentials.get((token_id, mechanism.name))
            if credential is None:  # a few milliseconds, once: in another thread, see `ScramServer.takes_time`
                password = base64.b64encode(self.hmac_of(token)).decode()
                credential = ScramCredential.of_password(mechanism, password)
                self._credentials[token_id, mechanism.name] = credential
            return ScramToken(credential, Principal.parse(token.owner), token.expiry_timestamp_ms)

        return find

    def hmac_of(self, token: DelegationTokenZnode) -> bytes:
        """Return the secret of a token."""
        return hmac.digest(self._key, token.token_id.encode(), "sha512")

    # -- requests ------------------------------------------------------------------------------------------------------

    async def create(
        self, requester: Principal, owner: Principal, renewers: Collection[Principal], max_lifetime_ms: int
    ) -> DelegationTokenZnode:
        """Create a token. max_lifetime_ms: 0 or less for the configured one. Raises DelegationTokenError."""
        self.check_enabled()
        if any(renewer.type != USER for renewer in renewers):
            raise DelegationTokenError(ErrorCode.INVALID_PRINCIPAL_TYPE, f"renewers must be of the type {USER}")
        longest_ms = self._config.delegation_token_max_lifetime_ms
        lifetime_ms = longest_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest_ms)
        now_ms = self._now_ms()
        token = DelegationTokenZnode(
            token_id=uuid_to_string(random_uuid(self._random)),
            owner=str(owner),
            token_requester=str(requester),
            renewers=[str(renewer) for renewer in renewers],
            issue_timestamp_ms=now_ms,
            max_timestamp_ms=now_ms + lifetime_ms,
            expiry_timestamp_ms=min(now_ms + lifetime_ms, now_ms + self._config.delegation_token_expiry_time_ms),
        )
        await self._store.create(token)
        return token

    async def renew(self, principal: Principal, secret: bytes, period_ms: int) -> int:
        """Move the end of a token and return it; a negative period is the configured one.

        Raises DelegationTokenError.
        """
        token = self._found(principal, secret)
        self._check_alive(token)
        return await self._end(token, self._config.delegation_token_expiry_time_ms if period_ms < 0 else period_ms)

    async def expire(self, principal: Principal, secret: bytes, period_ms: int) -> int:
        """Move the end of a token and return it; a negative period removes the token. Raises DelegationTokenError."""
        token = self._found(principal, secret)
        if period_ms < 0:
            await self._store.remove(token.token_id)
            return self._now_ms()
        self._check_alive(token)
        return await self._end(token, period_ms)

    def described(
        self,
        principal: Principal,
        owners: Collection[Principal] | None,
        may_describe: Callable[[DelegationTokenZnode], bool] = lambda token: False,
    ) -> list[DelegationTokenZnode]:
        """Return the tokens that a user may see. owners: only tokens that concern one of them; None: all.

        may_describe: whether the user may see a token that does not concern them. Raises DelegationTokenError.
        """
        self.check_enabled()
        return [
            token
            for token in self._store.all()
            if (owners is None or any(_concerns(token, owner) for owner in owners))
            and (_concerns(token, principal) or may_describe(token))
        ]

    def check_enabled(self) -> None:
        """Raise DelegationTokenError if there is no key."""
        if not self.is_enabled:
            raise DelegationTokenError(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set"
            )

    def _found(self, principal: Principal, secret: bytes) -> DelegationTokenZnode:
        self.check_enabled()
        for token in self._store.all():
            if hmac.compare_digest(self.hmac_of(token), secret):
                break
        else:
            raise DelegationTokenError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "no token has this secret")
        if str(principal) != token.owner and str(principal) not in token.renewers:
            raise DelegationTokenError(
                ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{principal} is neither owner nor renewer of the token"
            )
        return token

    def _check_alive(self, token: DelegationTokenZnode) -> None:
        if min(token.expiry_timestamp_ms, token.max_timestamp_ms) < self._now_ms():
            raise DelegationTokenError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token has expired")

    async def _end(self, token: DelegationTokenZnode, period_ms: int) -> int:
        end_ms = min(token.max_timestamp_ms, self._now_ms() + period_ms)
        changed = token.replace(expiry_timestamp_ms=end_ms)
        try:
            await self._store.replace(changed)
        except NoNodeError:
            raise DelegationTokenError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "the token is removed") from None
        return end_ms

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read all tokens; nothing without a key."""
        if self.is_enabled:
            await self._store.start()

    async def reload(self) -> None:
        """Read all tokens again, after notifications may have been missed; nothing without a key."""
        if self.is_enabled:
            await self._store.reload()

    async def run(self) -> None:
        """Follow the changes of other brokers, and remove expired tokens if this is the controller, until cancelled."""
        if not self.is_enabled:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.run())
            tasks.create_task(self._remove_expired())

    async def _remove_expired(self) -> None:
        while True:
            await asyncio.sleep(self._config.delegation_token_expiry_check_interval_ms / 1000)
            if self._is_controller():
                try:
                    await self.remove_expired()
                except RegistryError as error:
                    logger.warning("expired delegation tokens cannot be removed: %s", error)

    async def remove_expired(self) -> None:
        """Remove the tokens that have expired."""
        now_ms = self._now_ms()
        for token in list(self._store.all()):
            if min(token.expiry_timestamp_ms, token.max_timestamp_ms) < now_ms:
                await self._store.remove(token.token_id)

    def _forget_credentials(self, token_id: str) -> None:
        for name in SCRAM_MECHANISMS:
            self._credentials.pop((token_id, name), None)


def _concerns(token: DelegationTokenZnode, principal: Principal) -> bool:
    """Return whether a user is owner, requester or renewer of a token."""
    return str(principal) in (token.owner, token.token_requester, *token.renewers)

"""The validation of signed tokens (JWT), with the key sets of their issuers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from broker.authentication.key_sets import KeySet
from broker.authentication.settings import TokenSettings
from broker.errors import BrokerStartError
from security.sasl.oauthbearer_server import ValidateToken


class TokenValidators:
    """Makes validators. Those with the same settings share a key set."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """now_ms: the clock of tokens."""
        self._now_ms = now_ms
        self._key_sets: dict[TokenSettings, KeySet] = {}

    def of(self, tokens: TokenSettings) -> ValidateToken:
        """Return the validator of these settings, which knows no key before `start`. Raises BrokerStartError."""
        try:
            from security.sasl.signed_tokens import SignedTokens, TokenRules  # joserfc is optional
        except ImportError:
            raise BrokerStartError(
                "OAUTHBEARER with signed tokens needs joserfc: install ottla with the extra 'security'"
            ) from None
        key_set = self._key_sets.setdefault(tokens, KeySet(tokens))
        rules = TokenRules(tokens.audiences, tokens.issuer, tokens.skew_ms, tokens.principal_claim, tokens.scope_claim)
        validator = SignedTokens(rules, self._now_ms, key_set.want)
        key_set.add(validator)
        return validator.validate

    async def start(self) -> None:
        """Read the key sets. Raises BrokerStartError."""
        for key_set in self._key_sets.values():
            await key_set.start()

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work to run while the broker serves: it keeps the key sets up to date."""
        return [key_set.run() for key_set in self._key_sets.values()]

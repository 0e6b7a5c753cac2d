"""OAUTHBEARER tokens without a signature, for development: every client is who it says it is.

The options of the JAAS line and their defaults: unsecuredValidatorPrincipalClaimName (sub),
unsecuredValidatorScopeClaimName (scope), unsecuredValidatorRequiredScope (none), unsecuredValidatorAllowableClockSkewMs
(0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from security.jaas import JaasError
from security.sasl.oauthbearer_server import BearerToken, InvalidTokenError
from security.sasl.token_claims import (
    decode_section,
    required_time_claim_ms,
    scope_claim,
    text_claim,
    time_claim_ms,
)
from security.trimming import words

_OPTION: Final = "unsecuredValidator"


class UnsecuredTokens:
    """Accepts tokens whose algorithm is "none" and whose signature is empty."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """options: of the JAAS line. Raises JaasError."""
        self._now_ms = now_ms
        self._principal_claim = options.get(f"{_OPTION}PrincipalClaimName", "sub")
        self._scope_claim = options.get(f"{_OPTION}ScopeClaimName", "scope")
        self._required_scope = frozenset(words(options.get(f"{_OPTION}RequiredScope", "")))
        skew = f"{_OPTION}AllowableClockSkewMs"
        if not options.get(skew, "0").isdecimal():
            raise JaasError(f"the option {skew} must be a number of milliseconds")
        self._skew_ms = int(options.get(skew, "0"))

    def validate(self, token: str) -> BearerToken:
        """See `ValidateToken`."""
        sections = token.split(".")
        if len(sections) != 3 or sections[2]:
            raise InvalidTokenError("an unsecured token has two sections and an empty signature")
        if decode_section(sections[0]).get("alg") != "none":
            raise InvalidTokenError("the algorithm of an unsecured token must be none")
        claims = decode_section(sections[1])
        user = text_claim(claims, self._principal_claim)
        expires_ms = required_time_claim_ms(claims, "exp")
        issued_ms = time_claim_ms(claims, "iat")
        now_ms = self._now_ms()
        if expires_ms + self._skew_ms <= now_ms:
            raise InvalidTokenError("the token has expired")
        if issued_ms is not None and not issued_ms - self._skew_ms <= now_ms:
            raise InvalidTokenError("the token was issued in the future")
        if not self._required_scope <= scope_claim(claims, self._scope_claim):
            scope = " ".join(sorted(self._required_scope))
            raise InvalidTokenError(f"the token lacks the scope {scope!r}", "insufficient_scope", scope)
        return BearerToken(user, expires_ms)

"""OAUTHBEARER tokens with a signature, checked against a JSON Web Key Set by joserfc.

Only signatures by public keys count: a token with algorithm `none`, or with an HMAC (whose key could be a published
public key), is refused. A token must have `exp`, `iat` and the claim of the user, and the expected audience and issuer
where they are set; `exp` and `nbf` may differ from the clock by the configured skew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from security.sasl.oauthbearer_server import BearerToken, InvalidTokenError
from security.sasl.token_claims import (
    decode_section,
    required_time_claim_ms,
    scope_claim,
    text_claim,
    time_claim_ms,
)

_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The algorithms of signatures that are accepted, and the type of their keys."""


@dataclass(frozen=True)
class TokenRules:
    """What a token must say. Empty audiences and no issuer: any."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_ms: int = 30_000
    principal_claim: str = "sub"
    scope_claim: str = "scope"


class SignedTokens:
    """Validates tokens with the keys of the moment."""

    def __init__(
        self, rules: TokenRules, now_ms: Callable[[], int], on_unknown_key: Callable[[], None] = lambda: None
    ) -> None:
        """on_unknown_key: called if a token names a key that is not in the set; the issuer may have a new one."""
        self._rules = rules
        self._now_ms = now_ms
        self._on_unknown_key = on_unknown_key
        self._keys: list[Any] = []

    def set_keys(self, key_set: Any) -> None:
        """Replace the keys by those of a JSON Web Key Set, as JSON has been parsed. Raises ValueError."""
        if not isinstance(key_set, dict) or not isinstance(key_set.get("keys"), list):
            raise ValueError("a JSON Web Key Set must be an object with a list of keys")
        try:
            found = KeySet.import_key_set({"keys": key_set["keys"]})
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"a key of the JSON Web Key Set cannot be read: {type(error).__name__}") from None
        self._keys = [key for key in found.keys if key.get("use", "sig") == "sig"]

    def validate(self, token: str) -> BearerToken:
        """See `ValidateToken`."""
        sections = token.split(".")
        if len(sections) != 3:
            raise InvalidTokenError("a signed token has three sections")
        header = decode_section(sections[0])
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES:
            raise InvalidTokenError("the algorithm of the token is not that of a signature by a public key")
        if "crit" in header or "b64" in header:
            raise InvalidTokenError("the token's header has extensions that are not supported")
        if not any(_verifies(token, algorithm, key) for key in self._candidates(header, algorithm)):
            raise InvalidTokenError("the signature of the token is wrong")
        return self._check(decode_section(sections[1]))

    def _candidates(self, header: dict[str, Any], algorithm: str) -> list[Any]:
        keys = [
            key
            for key in self._keys
            if key.key_type == _KEY_TYPES[algorithm] and key.get("alg", algorithm) == algorithm
        ]
        if "kid" not in header:
            return keys
        named = [key for key in keys if key.get("kid") == header["kid"]]
        if not named:
            self._on_unknown_key()
            raise InvalidTokenError("no key has the id that the token names")
        return named

    def _check(self, claims: dict[str, Any]) -> BearerToken:
        rules, now_ms = self._rules, self._now_ms()
        user = text_claim(claims, rules.principal_claim)
        expires_ms = required_time_claim_ms(claims, "exp")
        required_time_claim_ms(claims, "iat")
        not_before_ms = time_claim_ms(claims, "nbf")
        scope_claim(claims, rules.scope_claim)
        if expires_ms + rules.skew_ms <= now_ms:
            raise InvalidTokenError(f"the token of {user!r} has expired")
        if not_before_ms is not None and now_ms < not_before_ms - rules.skew_ms:
            raise InvalidTokenError(f"the token of {user!r} is not valid yet")
        audience = claims.get("aud", [])
        audiences = audience if isinstance(audience, list) else [audience]
        if rules.audiences and not any(one in rules.audiences for one in audiences if isinstance(one, str)):
            raise InvalidTokenError("the token is for another audience (sasl.oauthbearer.expected.audience)")
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise InvalidTokenError("the token is of another issuer (sasl.oauthbearer.expected.issuer)")
        return BearerToken(user, expires_ms)


def _verifies(token: str, algorithm: str, key: Any) -> bool:
    try:
        jws.deserialize_compact(token, key, algorithms=[algorithm])
    except (JoseError, ValueError):
        return False
    return True

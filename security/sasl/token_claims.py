"""What the claims of a JSON Web Token must say, for validated and for unsecured tokens. Times are seconds in claims."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from security.sasl.oauthbearer_server import InvalidTokenError
from security.trimming import trimmed, words


def decode_section(section: str) -> dict[str, Any]:
    """Return the object in a section of a token (base64url without padding). Raises InvalidTokenError."""
    try:
        found = json.loads(base64.b64decode(section + "=" * (-len(section) % 4), altchars="-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidTokenError("a section of the token is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise InvalidTokenError("a section of the token is not a JSON object")
    return found


def text_claim(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that must be a text, without blanks around it. Raises InvalidTokenError."""
    value = claims.get(name)
    text = trimmed(value) if isinstance(value, str) else ""
    if not text:
        raise InvalidTokenError(f"the claim {name!r} must be a text")
    return text


def time_claim_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """Return a claim that is a time, in milliseconds since 1970; None if there is none. Raises InvalidTokenError."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -(2**53) < value < 2**53:
        raise InvalidTokenError(f"the claim {name!r} must be a time in seconds")
    return int(value * 1000)


def required_time_claim_ms(claims: Mapping[str, Any], name: str) -> int:
    """Return a time that must be there. Raises InvalidTokenError."""
    value = time_claim_ms(claims, name)
    if value is None:
        raise InvalidTokenError(f"the claim {name!r} is missing")
    return value


def scope_claim(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes: a list of texts, or a text with spaces. Raises InvalidTokenError."""
    value = claims.get(name)
    if value is None:
        return frozenset()
    parts = words(value) if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InvalidTokenError(f"the claim {name!r} must be a text or a list of texts")
    return frozenset(parts)

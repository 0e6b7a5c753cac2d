"""Unsecured tokens for OAUTHBEARER (KIP-255): claims without a signature, for development only.

Whoever can connect can make one for any user. The options are those of Kafka's login module.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from security.sasl.errors import SaslError

_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"
_EXTENSION: Final = "unsecuredLoginExtension_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_PRINCIPAL: Final = "unsecuredLoginPrincipalClaimName"
_DEFAULT_LIFETIME_S: Final = 3600


def unsecured_token(options: Mapping[str, str], now_s: float) -> str:
    """Return a token with the claims of the options, valid from now on. Raises SaslError, which names the option."""
    claims: dict[str, Any] = {"iat": now_s, "exp": now_s + _number(options, _LIFETIME, _DEFAULT_LIFETIME_S)}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[name.removeprefix(_STRING)] = value
        elif name.startswith(_NUMBER):
            claims[name.removeprefix(_NUMBER)] = _number(options, name)
        elif name.startswith(_LIST) and value:
            # The first character separates the elements.
            claims[name.removeprefix(_LIST)] = [one for one in value[1:].split(value[0]) if one]
    principal = options.get(_PRINCIPAL) or "sub"
    if not claims.get(principal):
        raise SaslError(f"an unsecured token needs the option {_STRING}{principal}")
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def unsecured_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """Return the extensions that are sent beside the token (KIP-342)."""
    return {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}


def _number(options: Mapping[str, str], name: str, default: float = 0) -> float:
    try:
        return float(options.get(name, default))
    except ValueError:
        raise SaslError(f"the option {name} must be a number") from None


def _part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

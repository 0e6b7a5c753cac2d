"""The rules of AlterClientQuotas (KIP-546): which quotas an entity may have, and how values are stored.

Byte rates and connection rates are whole numbers; the others are stored as Java writes a double.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from broker.errors import RequestError
from broker.quotas.client_quotas import (
    CLIENT_QUOTAS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
)
from broker.settings.entities import IPS, USERS
from protocol.error_codes import ErrorCode
from protocol.messages.alter_client_quotas import OpData

WHOLE_NUMBERS = {
    PRODUCER_BYTE_RATE: ("LONG", 2**63 - 1),
    CONSUMER_BYTE_RATE: ("LONG", 2**63 - 1),
    CONNECTION_CREATION_RATE: ("INT", 2**31 - 1),
}
SCRAM_CREDENTIALS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TOLERANCE = 1e-6
"""Values that are whole numbers but for this are accepted as such."""


def quotas_of_kind(path: str) -> tuple[str, ...]:
    """Return the names of the quotas that the entity with this path may have."""
    return (CONNECTION_CREATION_RATE,) if path.startswith(f"{IPS}/") else CLIENT_QUOTAS


def altered(path: str, config: Mapping[str, str], operations: Sequence[OpData]) -> dict[str, str]:
    """Return the config of an entity after the operations of a request. Raises RequestError.

    Values that are not quotas stay: a user's credentials cannot be removed as if they were quotas.
    """
    names = quotas_of_kind(path)
    changed = dict(config)
    for operation in operations:
        name = operation.key
        if operation.remove:
            if name in names:
                changed.pop(name, None)
        elif name in names:
            changed[name] = _text(name, operation.value)
        elif name in SCRAM_CREDENTIALS and path.startswith(f"{USERS}/"):
            raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "")  # as in Kafka
        else:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {name}")
    return changed


def _text(name: str, value: float) -> str:
    """Return a value as it is stored."""
    if name not in WHOLE_NUMBERS:
        if not value >= 0:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Configuration {name} must be at least 0")
        return java_double(value)
    kind, most = WHOLE_NUMBERS[name]
    whole = 0 if math.isnan(value) else int(max(min(value + TOLERANCE, most), -most))
    if abs(whole - value) > TOLERANCE:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Configuration {name} must be a {kind} value")
    return str(whole)


def java_double(value: float) -> str:
    """Return a number as Java's Double.toString does: "50.0", "1.0E7"."""
    if math.isinf(value):
        return "Infinity"
    if value == 0 or 1e-3 <= value < 1e7:
        return repr(value)
    text, _, exponent = repr(value).partition("e")
    whole, _, fraction = text.partition(".")
    digits = (whole + fraction).lstrip("0")
    first_place = len(whole) - 1 - (len(whole + fraction) - len(digits))
    return f"{digits[0]}.{digits[1:].rstrip('0') or '0'}E{int(exponent or 0) + first_place}"

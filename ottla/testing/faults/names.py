"""The names of APIs and errors in the descriptions of faults."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ottla.testing.faults.errors import FaultError
from protocol.api_keys import ApiKey, api_name
from protocol.error_codes import ErrorCode


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_APIS: Mapping[str, ApiKey] = {_plain(key.name): key for key in ApiKey}


def api_of(name: str) -> ApiKey:
    """Return the API with this name: `ListOffsets`, `LIST_OFFSETS` and `listoffsets` are one. Raises FaultError."""
    key = _APIS.get(_plain(name))
    if key is None:
        similar = difflib.get_close_matches(_plain(name), _APIS, 1)
        hint = f"; did you mean {api_name(_APIS[similar[0]])}?" if similar else ""
        raise FaultError(f"api={name}: Kafka has no API with this name{hint}")
    return key


def error_of(name: str) -> ErrorCode:
    """Return the error code with this name of Kafka's, in upper or lower case. Raises FaultError."""
    try:
        return ErrorCode[name.upper()]
    except KeyError:
        similar = difflib.get_close_matches(name.upper(), ErrorCode.__members__, 1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise FaultError(f"error={name}: Kafka has no error with this name{hint}") from None

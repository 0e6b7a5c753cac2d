"""JSON text as RFC 8259 has it: without NaN and infinity, which Python's own functions accept."""

import json
from typing import Any, NoReturn


def dump(value: Any) -> str:
    """Return JSON without spaces. Raises ValueError for NaN and infinity, which JSON does not have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def load(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError for what is not JSON, also for NaN and for more levels than Python can parse."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("too many levels") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")

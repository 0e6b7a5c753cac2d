"""Where a page of records begins: an offset in each partition, as text that fits into a URL ("0:12,1:34")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from console.rest.errors import RestError

Bounds = dict[int, int]
"""Offsets by partition."""
_ENTRY: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,19})")


def cursor_text(bounds: Mapping[int, int]) -> str:
    """Return offsets by partition as text."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(bounds.items()))


def parse_cursor(text: str) -> Bounds:
    """Return offsets by partition. Raises RestError."""
    bounds: Bounds = {}
    for entry in text.split(","):
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise RestError(400, f"at: {entry[:40]!r} is not PARTITION:OFFSET")
        bounds[int(found[1])] = int(found[2])
    return bounds

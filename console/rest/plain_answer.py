"""Answers that are plain dataclasses: those of the first page, which need not import pydantic, and long lists.

Nothing is validated, as we make them. `openapi` describes them as it describes the models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass
class PlainAnswer:
    """A part of an answer: a dataclass whose fields are numbers, texts, lists of them, and other plain answers."""

    def to_json(self) -> bytes:
        """Return the body of the answer."""
        return json.dumps(self, default=vars, separators=(",", ":"), ensure_ascii=False).encode()

"""Blanks around names, as Java's `String.trim` removes them: characters up to U+0020.

Python's `strip` also removes blanks beyond ASCII, such as U+00A0. Where a text becomes a user, it would make one user
of two: a token for "admin" with such a blank at the end would log in as "admin".
"""

from __future__ import annotations

from typing import Final

_BLANKS: Final = "".join(map(chr, range(0x21)))
_TO_SPACE: Final = dict.fromkeys(range(0x21), " ")


def trimmed(text: str) -> str:
    """Return the text without blanks at its ends."""
    return text.strip(_BLANKS)


def words(text: str) -> list[str]:
    """Return the parts between blanks."""
    return [word for word in text.translate(_TO_SPACE).split(" ") if word]

"""A text that must not be shown: a password, a key, a token, a JAAS configuration."""

from __future__ import annotations

from typing import Final, Self

HIDDEN: Final = "[hidden]"


class Secret(str):
    """A text with its usual methods, but `str()`, `repr()` and f-strings show `[hidden]`. `revealed` returns the text.

    It can be pickled; the pickle contains the text.
    """

    __slots__ = ()

    def __new__(cls, text: str = "") -> Self:
        return super().__new__(cls, revealed(text))

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str, /) -> str:
        return format(HIDDEN, spec)


def revealed(text: str) -> str:
    """Return a text that may be a secret as a plain one. Format only its result: a secret becomes `[hidden]`."""
    return str.__str__(text)

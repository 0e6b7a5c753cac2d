"""What must not be shown: a password, a key, a token, a JAAS configuration.

A text becomes a `Secret`. Tuples and znodes with other secrets are decorated with `hides`; dataclasses have
`field(repr=False)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

HIDDEN: Final = "[hidden]"
C = TypeVar("C", bound=type[Any])


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


def hides(*names: str) -> Callable[[C], C]:
    """Decorate a class with `_fields`, the names of its fields, as a NamedTuple: `repr` does not show these values."""

    def shown(self: Any) -> str:
        fields = (f"{name}={HIDDEN if name in names else repr(getattr(self, name))}" for name in self._fields)
        return f"{type(self).__name__}({', '.join(fields)})"

    def decorate(cls: C) -> C:
        cls.__repr__ = shown  # type: ignore[assignment]  # mypy takes it for a bound method
        return cls

    return decorate

"""Regular expressions of anybody, in RE2: it needs time in proportion to the text, whatever the expression is.

Python's `re` can take exponential time, in which it holds the whole interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

_MEMORY: Final = 8 * 1024 * 1024
_KEPT: Final = 256


class ExpressionError(Exception):
    """An expression that RE2 does not understand. The message is a predicate: it follows the name of the expression."""


class NoRe2Error(Exception):
    """The library is not installed."""

    def __init__(self) -> None:
        super().__init__("regular expressions need google-re2: pip install google-re2")


@lru_cache(_KEPT)
def searcher(text: str) -> Callable[[str], bool]:
    """Return what finds out whether a text has a match. Raises ExpressionError, NoRe2Error."""
    try:
        import re2  # optional: the extra `console`
    except ImportError:
        raise NoRe2Error from None
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    try:
        expression = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ExpressionError(f"is not a regular expression of RE2: {reason}") from None
    return lambda searched: expression.search(_valid(searched)) is not None


def _valid(text: str) -> str:
    """Return the text without halves of surrogate pairs, which RE2 refuses."""
    return text.encode(errors="replace").decode()

r"""Lone surrogates: halves of a pair of UTF-16, which a Python text may contain and UTF-8 cannot encode.

They come from an argument or a file that is not UTF-8 (`surrogateescape`), and from the escape `\ud800` in JSON and in
properties files.
"""

from typing import Final

RULE: Final = "must not contain half of a surrogate pair: UTF-8 cannot encode it"
"""The rule that such a text breaks."""


def has_lone_surrogate(text: str) -> bool:
    """Return whether UTF-8 cannot encode the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def with_pairs_joined(text: str) -> str:
    """Return the text with each pair of surrogates as one character; lone surrogates stay."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

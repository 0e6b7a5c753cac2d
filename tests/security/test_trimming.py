"""Blanks around names are cut off as Java does it: only characters up to U+0020."""

import pytest

from security.trimming import trimmed, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \x00\t\r\n\x1f", ""),
        ("\t a b\x1c ", "a b"),
        ("\u00a0a\u2003", "\u00a0a\u2003"),
        ("\u0085", "\u0085"),
    ],
)
def test_a_text_without_its_blanks(text: str, expected: str) -> None:
    assert trimmed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("", []), (" \t", []), ("a  b\tc\n", ["a", "b", "c"]), ("a\u00a0b c", ["a\u00a0b", "c"])]
)
def test_the_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words(text) == expected

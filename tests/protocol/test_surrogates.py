"""Texts that UTF-8 cannot encode."""

import pytest

from protocol.surrogates import has_lone_surrogate, with_pairs_joined


@pytest.mark.parametrize("text", ["", "Ünïcödé", "\U0001f600", "\x00"])
def test_a_text_that_can_be_encoded(text):
    assert not has_lone_surrogate(text)
    assert with_pairs_joined(text) == text


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", "\ude00\ud83d"])
def test_a_text_that_cannot_be_encoded(text):
    assert has_lone_surrogate(text)
    assert with_pairs_joined(text) == text


def test_pairs():
    assert has_lone_surrogate("a\ud83d\ude00b")
    assert with_pairs_joined("a\ud83d\ude00b\ud83d") == "a\U0001f600b\ud83d"

"""`ottla help`."""

import pytest


@pytest.mark.parametrize(
    "words", [(), ("topics",), ("topics", "create"), ("topic", "ls"), ("broker",), ("help",)], ids=str
)
def test_help_is_the_option_help(ottla, words):
    assert ottla("help", *words).out == ottla(*words, "--help").out


def test_help_of_no_command(ottla):
    assert "No such command 'crate' (did you mean create?)" in ottla("help", "topics", "crate", code=1).err
    assert "No such command 'nosuch'" in ottla("help", "nosuch", code=1).err

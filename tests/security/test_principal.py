"""The names of users."""

import pytest

from security.principal import ANONYMOUS, Principal


def test_a_principal_is_read_and_written():
    assert Principal.parse("User:CN=a:b,O=c") == Principal("User", "CN=a:b,O=c")
    assert str(Principal("User", "alice")) == "User:alice"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_a_principal_needs_a_type_and_a_name(text):
    with pytest.raises(ValueError, match="must be type:name"):
        Principal.parse(text)

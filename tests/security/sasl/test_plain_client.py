"""PLAIN: the message of RFC 4616."""

import pytest

from security.sasl.errors import SaslError
from security.sasl.plain_client import PlainClient


def test_one_message_with_user_and_password():
    login = PlainClient("tim", "tanstaaftanstaaf")
    assert login.first() == b"\0tim\0tanstaaftanstaaf"
    assert login.answer(b"") is None


@pytest.mark.parametrize(("username", "password"), [("a\0b", "hunter2"), ("a", "hunter\x002")])
def test_a_zero_byte_is_refused(username, password):
    with pytest.raises(SaslError, match="zero byte") as caught:
        PlainClient(username, password)
    assert "hunter" not in str(caught.value)

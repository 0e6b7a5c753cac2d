"""OAUTHBEARER: the messages of RFC 7628."""

import pytest

from security.sasl.errors import SaslError
from security.sasl.oauthbearer_client import OAuthBearerClient


def test_an_accepted_token():
    login = OAuthBearerClient("abc.def")
    assert login.first() == b"n,,\x01auth=Bearer abc.def\x01\x01"
    assert login.answer(b"") is None


def test_extensions_follow_the_token():
    login = OAuthBearerClient("abc", {"traceId": "123", "cluster": "lkc"})
    assert login.first() == b"n,,\x01auth=Bearer abc\x01traceId=123\x01cluster=lkc\x01\x01"


def test_a_refusal_is_acknowledged():
    login = OAuthBearerClient("abc")
    login.first()
    assert login.answer(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("", {}), ("a b", {}), ("a\x01b", {}), ("a", {"auth": "x"}), ("a", {"k1": "x"}), ("a", {"k": "x\x01"})],
)
def test_what_the_message_cannot_carry_is_refused(token, extensions):
    with pytest.raises(SaslError):
        OAuthBearerClient(token, extensions)

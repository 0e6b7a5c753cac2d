"""OAUTHBEARER, the server's side."""

from __future__ import annotations

import pytest

from security.principal import Principal
from security.sasl.errors import AuthenticationFailedError, SaslMessageError
from security.sasl.oauthbearer_server import BearerToken, InvalidTokenError, OauthBearerServer


def validate(token: str) -> BearerToken:
    if token == "scope":
        raise InvalidTokenError("no scope", "insufficient_scope", "a b")
    if token != "good":
        raise InvalidTokenError("expired")
    return BearerToken("alice", 1234)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good\x01\x01",
        b"n,a=alice,\x01auth=bearer good\x01\x01",
        b"n,,\x01auth=Bearer   good\x01traceId=123\x01tenant=a\x01\x01",
    ],
)
def test_a_valid_token_is_authenticated(message: bytes) -> None:
    server = OauthBearerServer(validate)
    assert server.step(message) == b""
    assert server.authenticated == (Principal("User", "alice"), 1234, False)


@pytest.mark.parametrize(
    ("token", "answer"),
    [
        (b"bad", b'{"status":"invalid_token"}'),
        (b"scope", b'{"status":"insufficient_scope","scope":"a b"}'),
    ],
)
def test_an_invalid_token_gets_an_object_and_then_fails(token: bytes, answer: bytes) -> None:
    server = OauthBearerServer(validate)
    assert server.step(b"n,,\x01auth=Bearer " + token + b"\x01\x01") == answer
    assert server.authenticated is None
    with pytest.raises(AuthenticationFailedError) as failed:
        server.step(b"\x01")
    assert str(failed.value) == answer.decode()
    other = OauthBearerServer(validate)
    other.step(b"n,,\x01auth=Bearer " + token + b"\x01\x01")
    with pytest.raises(AuthenticationFailedError, match="invalid credentials"):
        other.step(b"n,,\x01auth=Bearer good\x01\x01")
    assert other.authenticated is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"hello",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good\x01auth=x\x01\x01",
        b"n,,\x01auth=Bearer %%.%%.\x01\x01",
        b"n,,\x01token=good\x01\x01",
        b"n,a=,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01\x01\n",
        b"\xff",
    ],
)
def test_a_malformed_message_fails(message: bytes) -> None:
    with pytest.raises(AuthenticationFailedError, match="invalid credentials with SASL mechanism OAUTHBEARER"):
        OauthBearerServer(validate).step(message)


def test_another_scheme_gets_no_answer() -> None:
    with pytest.raises(SaslMessageError, match="not Bearer"):
        OauthBearerServer(validate).step(b"n,,\x01auth=Basic good\x01\x01")


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError, match=r"\(bob\) that is different from .* \(alice\)"):
        OauthBearerServer(validate).step(b"n,a=bob,\x01auth=Bearer good\x01\x01")

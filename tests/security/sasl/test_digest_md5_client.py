"""DIGEST-MD5: the example of RFC 2831, and servers that must not be believed."""

import pytest

from security.sasl.client_exchange import LoginRefusedError
from security.sasl.digest_md5_client import DigestMd5Client, new_nonce
from security.sasl.errors import SaslError

CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'  # RFC 2831, 4
)
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def login(username="chris", password="secret"):
    return DigestMd5Client(username, password, "imap/elwood.innosoft.com", nonce=lambda: "OA6MHXh6VqTrRk")


def test_the_example_of_the_rfc():
    exchange = login()
    assert exchange.first() == b""
    response = exchange.answer(CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" in response
    assert response.startswith(b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh"')
    assert exchange.answer(PROOF) is None


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (PROOF.replace(b"ea", b"ae"), "does not know the password"),
        (b"", "does not prove"),
        (b'realm="x"', "does not prove"),
        (b'"', "name=value"),
        (b"rspauth=\xc3\xa4", "does not know the password"),
    ],
)
def test_a_server_without_the_proof_is_refused(last, error):
    exchange = login()
    exchange.answer(CHALLENGE)
    with pytest.raises(SaslError, match=error) as caught:
        exchange.answer(last)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"rspauth=0",
        b'nonce="",algorithm=md5-sess',
        b'nonce="n",algorithm=md5',
        b'nonce="n"',
        b'nonce="n",algorithm=md5-sess,qop="auth-conf,auth-int"',
        b'nonce="n',
        b"\xff",
    ],
)
def test_a_challenge_that_breaks_the_format(challenge):
    with pytest.raises(SaslError, match="DIGEST-MD5"):
        login().answer(challenge)


def test_a_refusal_is_told_from_a_wrong_proof():
    exchange = login()
    exchange.answer(CHALLENGE)
    with pytest.raises(LoginRefusedError):
        exchange.answer(b"")


def test_names_are_escaped():
    response = login(username='a"b\\c').answer(CHALLENGE)
    assert rb'username="a\"b\\c"' in response


def test_characters_beyond_latin_1_need_utf_8():
    assert 'username="ключ"'.encode() in login(username="ключ").answer(CHALLENGE)
    for username, password in (("ключ", "p"), ("u", "ключ")):
        with pytest.raises(SaslError, match="8859-1"):
            login(username, password).answer(CHALLENGE.replace(b",charset=utf-8", b""))


def test_nonces_differ():
    assert new_nonce() != new_nonce()

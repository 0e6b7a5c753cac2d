"""SCRAM, the client's side: the example of RFC 7677, and servers that break the rules."""

import pytest

from security.sasl.client_exchange import LoginRefusedError
from security.sasl.errors import SaslError
from security.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512
from security.sasl.scram_client import ScramClient

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def client(**options):
    return ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=lambda: NONCE, **options)


def test_the_example_of_rfc_7677():
    login = client()
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert login.answer(CHALLENGE) == b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," + proof
    assert login.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_server_that_does_not_know_the_password_is_refused():
    login = client()
    login.answer(CHALLENGE)
    with pytest.raises(SaslError, match="does not know the password"):
        login.answer(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_refusal_of_the_server():
    login = client()
    login.answer(CHALLENGE)
    with pytest.raises(LoginRefusedError, match="invalid-proof"):
        login.answer(b"e=invalid-proof")


@pytest.mark.parametrize(
    ("challenge", "rule"),
    [
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=99999999"), "99999999 iterations"),
        (CHALLENGE.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"", "format"),
        (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "format"),
    ],
    ids=["too few iterations", "too many iterations", "another nonce", "no nonce of the server", "empty", "too early"],
)
def test_a_wrong_challenge_is_refused(challenge, rule):
    with pytest.raises(SaslError, match=rule):
        client().answer(challenge)


def test_only_many_iterations_take_long():
    login = client()
    assert not login.takes_long(CHALLENGE)
    assert login.takes_long(CHALLENGE.replace(b"i=4096", b"i=16384"))
    with pytest.raises(SaslError):
        login.takes_long(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    login.answer(CHALLENGE)
    assert not login.takes_long(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_delegation_token_is_marked():
    assert client(is_token=True).first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"


def test_nonces_differ():
    firsts = {ScramClient(SCRAM_SHA_512, "user", "pencil").first() for _ in range(3)}
    assert len(firsts) == 3

"""SCRAM, the server's side; the client of the tests is written with the shared arithmetic."""

from __future__ import annotations

import base64

import pytest

from security.principal import Principal
from security.sasl.errors import AuthenticationFailedError
from security.sasl.scram import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ScramMechanism,
    ServerFinal,
    ServerFirst,
    auth_message,
)
from security.sasl.scram_server import ScramServer, ScramToken

TOKEN = ScramToken(ScramCredential.of_password(SCRAM_SHA_256, "hmac"), Principal("User", "owner"), 1234)


def server(mechanism: ScramMechanism = SCRAM_SHA_256, nonce: str = "server-nonce") -> ScramServer:
    users = {"alice": ScramCredential.of_password(mechanism, "pencil")}
    return ScramServer(mechanism, users.get, {"token-1": TOKEN}.get, lambda: nonce)


def final_message(
    mechanism: ScramMechanism, first: ClientFirst, answer: bytes, password: str = "pencil", nonce: str | None = None
) -> bytes:
    server_first = ServerFirst.parse(answer)
    without_proof = ClientFinal.text_without_proof(nonce or server_first.nonce, first.gs2_header)
    salted = mechanism.salted_password(password, server_first.salt, server_first.iterations)
    covered = auth_message(first.bare, server_first.text, without_proof)
    proof = mechanism.client_proof(mechanism.client_key(salted), covered)
    return ClientFinal(server_first.nonce, proof, without_proof).encode()


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512], ids=lambda one: one.name)
def test_a_user_with_its_password_is_authenticated(mechanism: ScramMechanism) -> None:
    exchange = server(mechanism)
    first = ClientFirst.of("alice", "abc", {"foo": "bar"})
    answer = exchange.step(first.encode())
    assert answer.startswith(b"r=abcserver-nonce,s=")
    assert exchange.authenticated is None
    assert ServerFinal.parse(exchange.step(final_message(mechanism, first, answer))).error is None
    assert exchange.authenticated is not None
    assert exchange.authenticated.principal == Principal("User", "alice")


def test_a_token_logs_in_its_owner() -> None:
    exchange = server()
    first = ClientFirst.of("token-1", "abc", {"tokenauth": "true"})
    exchange.step(final_message(SCRAM_SHA_256, first, exchange.step(first.encode()), "hmac"))
    assert exchange.authenticated == (Principal("User", "owner"), 1234, True)


@pytest.mark.parametrize(
    "first",
    [
        ClientFirst.of("nobody", "abc"),
        ClientFirst.of("token-1", "abc"),
        ClientFirst.of("token-1", "abc", {"tokenauth": "false"}),
        ClientFirst.of("alice", "abc", {"tokenauth": "true"}),
    ],
    ids=["unknown user", "token without tokenauth", "tokenauth=false", "tokenauth of a user"],
)
def test_a_user_without_a_credential_is_refused(first: ClientFirst) -> None:
    with pytest.raises(AuthenticationFailedError, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
        server().step(first.encode())


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError, match="different from username"):
        server().step(b"n,a=admin,n=alice,r=abc")
    assert server().step(b"n,a=alice,n=alice,r=abc")


def test_a_wrong_password_is_refused() -> None:
    exchange = server()
    first = ClientFirst.of("alice", "abc")
    with pytest.raises(AuthenticationFailedError):
        exchange.step(final_message(SCRAM_SHA_256, first, exchange.step(first.encode()), "pen"))
    assert exchange.authenticated is None


def test_a_recorded_exchange_cannot_be_replayed() -> None:
    first = ClientFirst.of("alice", "abc")
    victim = ScramCredential.of_password(SCRAM_SHA_256, "pencil")
    recorded = ScramServer(SCRAM_SHA_256, lambda user: victim)
    final = final_message(SCRAM_SHA_256, first, recorded.step(first.encode()))
    recorded.step(final)
    assert recorded.authenticated is not None
    attacked = ScramServer(SCRAM_SHA_256, lambda user: victim)
    attacked.step(first.encode())
    with pytest.raises(AuthenticationFailedError):
        attacked.step(final)
    assert attacked.authenticated is None


def test_the_nonce_of_the_final_message_is_compared() -> None:
    exchange = server()
    first = ClientFirst.of("alice", "abc")
    answer = exchange.step(first.encode())
    with pytest.raises(AuthenticationFailedError):
        exchange.step(final_message(SCRAM_SHA_256, first, answer, nonce="abcserver-noncex"))


def test_a_mandatory_extension_fails_with_the_proof() -> None:
    exchange = server()
    first = ClientFirst.parse(b"n,,m=ext,n=alice,r=abc")
    answer = exchange.step(first.encode())
    with pytest.raises(AuthenticationFailedError):
        exchange.step(final_message(SCRAM_SHA_256, first, answer))


def test_an_empty_proof_is_refused() -> None:
    exchange = server()
    nonce = ServerFirst.parse(exchange.step(b"n,,n=alice,r=abc")).nonce
    with pytest.raises(AuthenticationFailedError):
        exchange.step(f"c=biws,r={nonce},p=".encode())


def test_nothing_follows_the_end() -> None:
    exchange = server()
    first = ClientFirst.of("alice", "abc")
    final = final_message(SCRAM_SHA_256, first, exchange.step(first.encode()))
    exchange.step(final)
    with pytest.raises(Exception, match="has ended"):
        exchange.step(final)


@pytest.mark.parametrize("message", [b"", b"hello", b"y,,n=alice,r=abc", b"p=tls-unique,,n=alice,r=abc", b"\xff"])
def test_a_malformed_message_fails_like_a_wrong_password(message: bytes) -> None:
    with pytest.raises(AuthenticationFailedError, match="invalid credentials"):
        server().step(message)


def test_no_reason_shows_a_key() -> None:
    exchange = server()
    first = ClientFirst.of("alice", "abc")
    final = final_message(SCRAM_SHA_256, first, exchange.step(first.encode()), "pen")
    with pytest.raises(AuthenticationFailedError) as failed:
        exchange.step(final)
    proof = base64.b64encode(ClientFinal.parse(final).proof).decode()
    assert proof not in failed.value.reason + str(failed.value)

"""SCRAM's arithmetic and messages, against RFC 7677 and what Kafka 3.9 stored and sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from security.sasl.errors import SaslMessageError
from security.sasl.scram import (
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ServerFinal,
    ServerFirst,
    auth_message,
    from_saslname,
    new_nonce,
    to_saslname,
)
from support.reference import REFERENCE

SALT = b"0123456789abcdef"


def recorded_users() -> list[tuple[str, dict[str, str]]]:
    steps = [json.loads(line) for line in (REFERENCE / "security" / "scram-znodes.jsonl").read_text().splitlines()]
    found: dict[str, dict[str, str]] = {}
    for step in steps:
        for znode in step.get("changed", []):
            if znode["path"].startswith("/config/users/"):
                found[znode["path"] + "@" + str(znode["version"])] = znode["value"]["config"]
    return sorted(found.items())


@pytest.mark.parametrize(
    "config", [config for _, config in recorded_users()], ids=[name for name, _ in recorded_users()]
)
def test_recorded_credentials_are_read_and_written(config: dict[str, str]) -> None:
    for name, text in config.items():
        if name in SCRAM_MECHANISMS:
            assert ScramCredential.parse(text).text() == text


def test_the_credentials_of_pencil_are_those_of_kafka() -> None:
    recorded = dict(recorded_users())["/config/users/u@1"]
    for name, mechanism in SCRAM_MECHANISMS.items():
        assert ScramCredential.of_password(mechanism, "pencil", SALT).text() == recorded[name]


def test_the_exchange_of_rfc_7677() -> None:
    first = ClientFirst.parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    server_first = ServerFirst.parse(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = ClientFinal.parse(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    salted = SCRAM_SHA_256.salted_password("pencil", server_first.salt, server_first.iterations)
    covered = auth_message(first.bare, server_first.text, final.without_proof)
    client_key = SCRAM_SHA_256.client_key(salted)
    assert SCRAM_SHA_256.client_proof(client_key, covered) == final.proof
    assert SCRAM_SHA_256.proves(final.proof, SCRAM_SHA_256.stored_key(client_key), covered)
    assert not SCRAM_SHA_256.proves(final.proof, SCRAM_SHA_256.stored_key(client_key), covered + b"x")
    signature = SCRAM_SHA_256.server_signature(SCRAM_SHA_256.server_key(salted), covered)
    assert ServerFinal(signature).encode() == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_messages_are_written_as_they_are_read() -> None:
    first = ClientFirst.of("a,b=c", "abc", {"tokenauth": "true"})
    assert first.encode() == b"n,,n=a=2Cb=3Dc,r=abc,tokenauth=true"
    assert ClientFirst.parse(first.encode()) == first
    server_first = ServerFirst.of("abcdef", SALT, 4096)
    assert ServerFirst.parse(server_first.encode()) == server_first
    without_proof = ClientFinal.text_without_proof("abcdef")
    assert without_proof == "c=biws,r=abcdef"
    final = ClientFinal("abcdef", b"proof", without_proof)
    assert ClientFinal.parse(final.encode()) == final
    assert ServerFinal.parse(b"v=" + base64.b64encode(b"s")) == ServerFinal(b"s")
    assert ServerFinal.parse(b"e=other-error") == ServerFinal(b"", "other-error")


@pytest.mark.parametrize("message", [ClientFinal("abcdef", b"revealing", ""), ServerFinal(b"revealing")])
def test_no_repr_shows_what_a_password_is_proved_with(message):
    assert "revealing" not in repr(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"hello",
        b"y,,n=u,r=x",
        b"p=tls-unique,,n=u,r=x",
        b"n,,n=,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=u,r=",
        b"n,,n=u,r=a b",
        b"n,,n=u,r=x,",
        b"n,,n=\xff,r=x",
        b"n,,n=u\x00,r=x",
        b"n,,n=u,r=x\n",
    ],
)
def test_a_first_message_of_another_format_is_refused(message: bytes) -> None:
    with pytest.raises(SaslMessageError):
        ClientFirst.parse(message)


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (ClientFinal.parse, b"hello"),
        (ClientFinal.parse, b"c=biws,r=x"),
        (ClientFinal.parse, b"c=biws,r=x,p=a==="),
        (ClientFinal.parse, b"c=biws,r=x,p=abc"),
        (ServerFirst.parse, b"r=x,s=abc=,i="),
        (ServerFirst.parse, b"r=x,s=abc=,i=99999999999999999999"),
        (ServerFinal.parse, b""),
    ],
)
def test_other_messages_of_another_format_are_refused(parse: Any, message: bytes) -> None:
    with pytest.raises(SaslMessageError):
        parse(message)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=,iterations=4096",
        "salt=!,stored_key=,server_key=,iterations=4096",
        "salt=ä,stored_key=,server_key=,iterations=4096",
        "salt=,stored_key=,server_key=ß,iterations=4096",
        "salt=,stored_key=,server_key=,iterations=",
        "salt=,stored_key=,server_key=,iterations=-1",
        "salt=,stored_key=,server_key=,iterations=" + "9" * 5000,
        "salt=,stored_key=,server_key=,iterations=1234567890",
        "salt=,stored_key=,server_key=,iterations=٤٠٩٦",
    ],
)
def test_a_credential_of_another_format_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SaslMessageError) as refused:
        ScramCredential.parse(text)
    assert not text or text not in str(refused.value)


def test_keys_are_not_shown() -> None:
    credential = ScramCredential.of_password(SCRAM_SHA_256, "pencil", SALT)
    assert base64.b64encode(credential.stored_key).decode() not in repr(credential)
    assert repr(credential.stored_key) not in repr(credential)


def test_salts_and_nonces_are_random() -> None:
    assert ScramCredential.of_password(SCRAM_SHA_256, "x").salt != ScramCredential.of_password(SCRAM_SHA_256, "x").salt
    assert new_nonce() != new_nonce()
    assert len(new_nonce()) == 26


@pytest.mark.parametrize("name", ["a", "=2C", "=3D2C", "a,b=c", "é", "=,="])
def test_names_survive_their_escapes(name: str) -> None:
    assert from_saslname(to_saslname(name)) == name
    assert ClientFirst.parse(ClientFirst.of(name, "x").encode()).user == name

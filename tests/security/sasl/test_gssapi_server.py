"""The messages of GSSAPI's server, with a context that is no Kerberos; tests of Kerberos are in test_kerberos.py."""

from __future__ import annotations

import pytest

from security.principal import Principal
from security.sasl.errors import AuthenticationFailedError, SaslMessageError
from security.sasl.gss_context import KerberosError
from security.sasl.gssapi_server import GssapiServer
from security.sasl.kerberos_names import LocalNames
from support.gss import PROOF, SIGNED, FakeContext

OFFER = SIGNED + b"\x01\0\0\0"
CHOICE = SIGNED + b"\x01\0\0\0"
TICKET = b"ticket:alice/desk@REALM.COM"
SHOWN = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


def server(context: FakeContext | None = None, *rules: str) -> GssapiServer:
    return GssapiServer(context or FakeContext(), LocalNames(rules or ("DEFAULT",), "REALM.COM"))


def test_a_login() -> None:
    exchange = server()
    assert exchange.step(TICKET) == PROOF
    assert exchange.step(b"") == OFFER
    assert exchange.authenticated is None
    assert exchange.step(CHOICE) is None
    assert exchange.authenticated is not None
    assert exchange.authenticated.principal == Principal("User", "alice")
    assert exchange.authenticated.expires_ms is None
    with pytest.raises(SaslMessageError):
        exchange.step(CHOICE)


def test_a_client_that_wants_no_proof_of_the_server() -> None:
    exchange = server(FakeContext(is_mutual=False))
    assert exchange.step(TICKET) == OFFER
    assert exchange.step(CHOICE) is None
    assert exchange.authenticated is not None


@pytest.mark.parametrize("authorization_id", [b"alice", b"root", b"\xff"])
def test_the_authorization_id_is_not_used(authorization_id: bytes) -> None:
    exchange = server(FakeContext(is_mutual=False))
    exchange.step(TICKET)
    exchange.step(CHOICE + authorization_id)
    assert exchange.authenticated is not None
    assert exchange.authenticated.principal.name == "alice"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b""], "the token is empty"),
        ([b"nonsense"], "no ticket"),
        ([TICKET, b"more"], "must be empty"),
        ([TICKET, b"", b"\x01\0\0\0"], "the signature is wrong"),
        ([TICKET, b"", SIGNED + b"\x01\0\0"], "no security layer"),
        ([TICKET, b"", SIGNED], "no security layer"),
        ([TICKET, b"", SIGNED + b"\x00\0\0\0"], "no security layer"),
        ([TICKET, b"", SIGNED + b"\x02\0\0\0"], "no security layer"),
        ([TICKET, b"", SIGNED + b"\x04\0\0\0"], "no security layer"),
        ([b"ticket:alice@OTHER.COM", b"", CHOICE], "no rule of sasl.kerberos"),
        ([b"ticket:alice", b"", CHOICE], "must be primary@REALM"),
    ],
)
def test_what_is_refused_without_the_reason(messages: list[bytes], reason: str) -> None:
    exchange = server()
    for message in messages[:-1]:
        exchange.step(message)
    with pytest.raises(AuthenticationFailedError, match=SHOWN) as refused:
        exchange.step(messages[-1])
    assert reason in refused.value.reason
    assert reason not in str(refused.value)
    assert exchange.authenticated is None


def test_what_may_work_later_is_not_answered() -> None:
    exchange = server(FakeContext(broken=KerberosError("Request is a replay", is_transient=True)))
    with pytest.raises(SaslMessageError, match="replay"):
        exchange.step(TICKET)
    assert exchange.authenticated is None


def test_steps_read_files() -> None:
    assert GssapiServer.reads_files

"""The messages of GSSAPI's client, at the server of this project and at others."""

from __future__ import annotations

import pytest

from security.sasl.errors import SaslError
from security.sasl.gss_context import KerberosError
from security.sasl.gssapi_client import GssapiClient
from security.sasl.gssapi_server import GssapiServer
from security.sasl.kerberos_names import LocalNames
from support.gss import PROOF, SIGNED, FakeContext


@pytest.mark.parametrize("is_mutual", [True, False])
def test_a_login(is_mutual: bool) -> None:
    client = GssapiClient(FakeContext(is_mutual=is_mutual, principal="alice@REALM.COM"))
    server = GssapiServer(FakeContext(is_mutual=is_mutual), LocalNames(["DEFAULT"], "REALM.COM"))
    message: bytes | None = client.first()
    while not client.is_last:
        answer = server.step(message or b"")
        assert answer is not None
        message = client.answer(answer)
    assert server.step(message or b"") is None
    assert client.answer(b"") is None
    assert server.authenticated is not None
    assert server.authenticated.principal.name == "alice"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([b"nonsense"], "no ticket"),
        ([PROOF, b"\x01\0\0\0"], "the signature is wrong"),
        ([PROOF, SIGNED + b"\x06\0\0\0"], "must offer 'no security layer'"),
        ([PROOF, SIGNED + b"\x01\0"], "must offer 'no security layer'"),
    ],
)
def test_a_server_that_is_refused(answers: list[bytes], reason: str) -> None:
    client = GssapiClient(FakeContext(principal="alice@REALM.COM"))
    for answer in answers[:-1]:
        assert client.answer(answer) == b""
    with pytest.raises(SaslError, match=f"GSSAPI: .*{reason}"):
        client.answer(answers[-1])
    assert not client.is_last


@pytest.mark.parametrize("offered", [1, 3, 7])
def test_no_security_layer_is_chosen(offered: int) -> None:
    client = GssapiClient(FakeContext(is_mutual=False))
    assert client.answer(SIGNED + bytes([offered, 1, 0, 0])) == SIGNED + b"\x01\0\0\0"


def test_a_ticket_that_cannot_be_had() -> None:
    with pytest.raises(KerberosError, match="no KDC"):
        GssapiClient(FakeContext(broken=KerberosError("no KDC", is_transient=True)))

"""The handshakes that were recorded from Kafka: version, cipher suite, user, or the error that the client sees."""

import json
import ssl
import warnings

import pytest

from support.certificates import authority, client_certificate, other_authority
from support.listening import Client, listening
from support.loops import on_both_loops
from support.reference import REFERENCE
from support.tls_listening import TlsClient, client_tls, tls_listening

ALERTS = {
    "SSLV3_ALERT_BAD_CERTIFICATE": ("SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": ("TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
}
"""OpenSSL's alerts say more than Java's."""

LONG_SUBJECT = r"CN=kafka.Client.EXAMPLE,OU=Dev\+Ops,O=My\, Org \"x\",L=Mitte,ST=Berlin,C=DE"
LISTENERS = {"ssl.client.auth=none": "none", "ssl.client.auth=required": "required"} | {
    "ssl.client.auth=requested": "requested"
}


def recorded():
    lines = (REFERENCE / "security" / "tls.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if "case" in one]


def name(row):
    return f"{row.get('listener', '')} {row['case']}".strip()


HANDSHAKES = [
    row  # those that follow a dynamic change: tests/broker/test_dynamic_tls.py
    for row in recorded()
    if row.get("listener") in LISTENERS and not row["case"].startswith("after ")
]
RAW = [row for row in recorded() if "sent" in row]


def certificate_of(case):
    """The client's certificate in a recorded case."""
    if "long DN" in case or case.endswith("client-dn"):
        return authority().issue(LONG_SUBJECT)
    if "unknown CA" in case:
        return other_authority().issue("CN=client")
    if "expired" in case:
        return authority().issue("CN=client", expired=True)
    has_one = "certificate CN=client" in case or case.startswith("client certificate")
    return client_certificate() if has_one else None


def context_of(case):
    version = ("TLSv1.2",) if case.startswith("TLS 1.2") else ("TLSv1.2", "TLSv1.3")
    trusted = other_authority() if "does not trust" in case else None
    context = client_tls(certificate_of(case), trusted, enabled_protocols=version)
    if "cipher" in case:
        context.set_ciphers("AES128-SHA")
    if "1.1" in case:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


@pytest.mark.parametrize("row", HANDSHAKES, ids=name)
@on_both_loops
async def test_handshakes(row, tmp_path):
    server = authority().issue("CN=broker", sans=("localhost",), key_type="rsa")
    settings = {"ssl_client_auth": LISTENERS[row["listener"]]}
    if "setting" in row:
        setting, _, value = row["setting"].partition("=")
        settings[setting.replace(".", "_")] = value
    async with tls_listening(tmp_path, settings=settings, server=server) as acceptor:
        client = TlsClient(acceptor.port, context_of(row["case"]))
        if "error" in row:
            expected = row["error"].removeprefix("[SSL: ").partition("]")[0]
            with pytest.raises(ssl.SSLError, match="|".join(ALERTS.get(expected, (expected,)))):
                async with client:
                    await client.ask(b"x")
            return
        async with client:
            await client.ask(b"x")
            (connection,) = acceptor.connections
            assert f"{client.tls.version()} {client.tls.cipher()[0]}" == row["handshake"]
            assert str(connection.principal) == row["principal"]


@pytest.mark.parametrize("row", RAW, ids=name)
@on_both_loops
async def test_other_protocols_than_that_of_the_listener(row, tmp_path):
    is_tls = "PLAINTEXT" not in row["case"]
    async with (
        tls_listening(tmp_path) if is_tls else listening() as acceptor,
        Client(acceptor) as client,
    ):
        await client.send(bytes.fromhex(row["sent"].rstrip("…")))
        if row["end"] == "closed":
            assert (await client.rest()).hex() == row["received"]
        else:  # still open: it sends the rest of what it began
            await client.send(bytes(2))
            assert (await client.rest()).hex() == "15030300020250"

"""Logins as recorded from Kafka 3.9: the client sends the recorded bytes, and accepts or refuses the answers."""

import base64
import contextlib
import json
import random

import pytest

from client.errors import AuthenticationError
from client.wire.connection import Connection
from client.wire.connection_security import ConnectionSecurity
from client.wire.sasl_login import SaslLogin
from security.sasl.oauthbearer_client import OAuthBearerClient
from security.sasl.plain_client import PlainClient
from security.sasl.scram import SCRAM_MECHANISMS, ClientFirst
from security.sasl.scram_client import ScramClient
from support.deadlines import DEADLINE_S
from support.reference import REFERENCE
from support.tcp_server import TcpServer

RECORDED = {
    one["scenario"]: [frame for frame in one["frames"] if frame.get("api_name") != "Metadata"]
    for one in map(json.loads, (REFERENCE / "security" / "sasl.jsonl").read_text().splitlines())
}
SUCCESSES = [
    *(f"plain success, {one}" for one in ("handshake v1, authenticate v2", "handshake v1, authenticate v1")),
    *(f"plain success, {one}" for one in ("handshake v1, authenticate v0", "handshake v0: raw tokens")),
    *(f"SCRAM-SHA-{bits} success{how}" for bits in (256, 512) for how in ("", ", handshake v0: raw tokens")),
    *(f"SCRAM-SHA-{bits} success, authenticate v0" for bits in (256, 512)),
    "SCRAM user name with comma and equals sign",
    "oauth unsecured: success",
    "oauth unsecured: success, handshake v0",
    "oauth unsecured: success, authenticate v0",
    "oauth unsecured: success, with extensions",
    "oauth JWKS: success ES256",
    "reauth: lifetime in SaslAuthenticate v2",
]
FAILURES = [
    "plain failure: wrong password",
    "plain failure: wrong password, authenticate v1",
    "plain failure: wrong password, handshake v0",
    "unsupported mechanism, handshake v1",
    "unsupported mechanism, handshake v0",
    "SCRAM-SHA-256 failure: wrong password (bad proof)",
    "SCRAM-SHA-256 failure: wrong password, handshake v0",
    "SCRAM-SHA-512 failure: unknown user",
    "oauth unsecured: expired",
    "oauth unsecured: expired, handshake v0",
    "oauth JWKS: wrong signature",
]


class RecordedBroker:
    """Answers as Kafka did, and keeps what it was sent; ApiVersions it answers with these versions of the login."""

    def __init__(self, frames, handshake, authenticate):
        self._frames = frames
        keys = [(17, handshake), (18, 0), (36, authenticate)]
        listed = b"".join(key.to_bytes(2, "big") + bytes(2) + version.to_bytes(2, "big") for key, version in keys)
        self._versions = len(keys).to_bytes(4, "big") + listed
        self.sent = []
        self.server = TcpServer(self._serve)

    async def _serve(self, reader, writer):
        async def received():
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

        def send(frame):
            writer.write(len(frame).to_bytes(4, "big") + frame)

        for code in (b"\0\x23", b"\0\0"):  # the newest version is refused
            send((await received())[4:8] + code + self._versions)
        for entry in self._frames:
            if entry["direction"] == "request":
                frame = await received()
                self.sent.append(frame)
            elif entry["direction"] == "response":
                answer = bytes.fromhex(entry["frame"])
                send(answer if "raw" in entry else frame[4:8] + answer[4:])
        with contextlib.suppress(ConnectionError):
            if self._frames[-1]["direction"] != "closed":
                await reader.read()


def sent_tokens(frames):
    """The tokens that the recorded client sent."""
    for one in frames:
        if one["direction"] == "request" and "raw" in one:
            yield bytes.fromhex(one["frame"])
        elif one["direction"] == "request" and one["api_name"] == "SaslAuthenticate":
            yield base64.b64decode(one["decoded"]["authBytes"])


def recorded_login(name, frames):
    """The login that sends these tokens: with the recorded user, nonce and token."""
    mechanism = frames[0]["decoded"]["mechanism"]
    first = next(sent_tokens(frames), b"\0alice\0alice-secret")
    password = "wrong" if "wrong password" in name else "pencil"

    async def exchange(host):
        if mechanism == "OAUTHBEARER":
            _, token, *extensions = first.removesuffix(b"\1\1").decode().split("\1")
            pairs = dict(one.split("=", 1) for one in extensions)
            return OAuthBearerClient(token.removeprefix("auth=Bearer "), pairs)
        if mechanism in SCRAM_MECHANISMS:
            client = ClientFirst.parse(first)
            return ScramClient(SCRAM_MECHANISMS[mechanism], client.user, password, nonce=lambda: client.nonce)
        return PlainClient(*first.decode().split("\0")[1:])

    return SaslLogin(mechanism, exchange, random.Random(1))


async def log_in(name):
    """Log in. Return the frames that were sent, and the recorded ones, without correlation ids."""
    frames = RECORDED[name]
    versions = {one["api_name"]: one["api_version"] for one in frames if "api_name" in one}
    broker = RecordedBroker(frames, versions["SaslHandshake"], versions.get("SaslAuthenticate", 2))
    await broker.server.listen()
    try:
        security = ConnectionSecurity(login=recorded_login(name, frames))
        port = broker.server.port
        connection = await Connection.open(
            "127.0.0.1", port, security=security, client_id="rec", request_timeout_s=DEADLINE_S
        )
        await connection.close()
    finally:
        await broker.server.close()
    recorded = [one for one in frames if one["direction"] == "request"]
    return [
        (
            sent if "raw" in one else sent[:4] + sent[8:],
            bytes.fromhex(one["frame"]) if "raw" in one else bytes.fromhex(one["frame"][:8] + one["frame"][16:]),
        )
        for sent, one in zip(broker.sent, recorded, strict=True)
    ]


@pytest.mark.parametrize("name", SUCCESSES)
async def test_a_recorded_success(name):
    for sent, recorded in await log_in(name):
        assert sent == recorded


@pytest.mark.parametrize("name", FAILURES)
async def test_a_recorded_failure(name):
    with pytest.raises(AuthenticationError) as caught:
        await log_in(name)
    assert not caught.value.retriable
    assert "secret" not in str(caught.value)

"""What a client without a user gets from a SASL listener: nothing but errors, whatever it sends.

Forged tokens: tests/security/sasl/test_signed_tokens.py. Replayed exchanges: tests/security/sasl/test_scram_server.py.
"""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from broker.broker import Broker
from broker.requests.api_table import API_TABLE, Api
from client.admin.admin import Admin
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.principal import ANONYMOUS
from support.broker import running_broker
from support.counts import count
from support.sasl import listener_settings, sasl_listeners, unsecured
from support.seeds import chosen_seed
from support.tls_listening import client_tls, tls_settings
from support.wire import ConnectionClosedError, WireClient, decode_answer, frame, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
SENTINEL = 0x5E4711
PASSWORD = b"\0alice\0alice-secret"
LARGEST_FRAME = 524_288  # sasl.server.max.receive.size, if it is not set
FRAMES_OF_AN_ATTACK = 1000  # more than it has; it ends the stream itself
NEWER_VERSION = 9  # of ApiVersions, which the broker does not have
BEFORE_LOGIN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    folder = tmp_path_factory.mktemp("attacked")
    values = {
        **sasl_listeners("SASL", "WEAK", "SECURE"),
        **tls_settings(folder),
        **listener_settings("SASL", "SCRAM-SHA-512"),
        "connection.failed.authentication.delay.ms": "0",
    }
    for listener in ("WEAK", "SECURE"):
        values |= listener_settings(listener, "PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER")
        values |= unsecured(listener)
    values["listener.security.protocol.map"] = values["listener.security.protocol.map"].replace(
        "SECURE:SASL_PLAINTEXT", "SECURE:SASL_SSL"
    )
    async with running_broker(folder / "data", **values) as running:
        async with Admin(bootstrap_servers=servers(running, "PLAINTEXT")) as admin:
            await admin.set_scram_password("alice", "alice-secret", ["SCRAM-SHA-256"])
        yield running


def servers(broker: Broker, listener: str = "WEAK") -> str:
    return f"127.0.0.1:{broker.acceptors[listener].port}"


async def rest(client: WireClient, most: int) -> list[bytes]:
    """All answers until the broker closes the connection; not more than `most`, so that a failure is seen at once."""
    answers: list[bytes] = []
    while len(answers) < most:
        try:
            answers.append(await client.receive_raw())
        except ConnectionClosedError:
            break
    return answers


@pytest.mark.parametrize("api", [api for api in API_TABLE if api.key not in BEFORE_LOGIN], ids=lambda api: api.name)
async def test_no_api_is_served_before_the_handshake(broker: Broker, api: Api) -> None:
    async with wire_client(servers(broker)) as client:
        client.send_raw(frame(api.request(), api.max_version))
        assert await rest(client, 1) == []


@pytest.mark.parametrize("api", [api for api in API_TABLE if api.key not in BEFORE_LOGIN], ids=lambda api: api.name)
async def test_no_api_is_served_between_handshake_and_password(broker: Broker, api: Api) -> None:
    """An answer is that of the API's own error, and says nothing of the cluster."""
    if api.key == ApiKey.SASL_AUTHENTICATE:
        return
    async with wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send_raw(frame(api.request(), api.max_version))
        client.send_raw(frame(SaslAuthenticateRequest(auth_bytes=PASSWORD), 2, SENTINEL))
        answers = await rest(client, 2)
    assert len(answers) <= 1, "the password came too late"
    for answer in answers:
        assert broker.services is not None
        assert broker.services.cluster_id.encode() not in answer
        assert b"127.0.0.1" not in answer


async def test_an_unauthenticated_request_has_no_effect(broker: Broker) -> None:
    topics = [MetadataRequestTopic(name="made-by-nobody")]
    async with wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send_raw(frame(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9))
        await rest(client, 2)
    async with wire_client(servers(broker, "PLAINTEXT")) as client:
        known = await client.call(MetadataRequest(topics=None), 9)
        assert "made-by-nobody" not in {topic.name for topic in known.topics}


async def test_a_large_request_between_handshake_and_password_gets_no_answer(broker: Broker) -> None:
    """It is not decoded: that would take the broker's time."""
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(1000)]
    async with wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send_raw(frame(MetadataRequest(topics=topics), 9))
        assert await rest(client, 1) == []


@pytest.mark.parametrize("size", [LARGEST_FRAME + 1, 2**31 - 1, 0, -1])
@pytest.mark.parametrize("stage", ["before the handshake", "as a bare token", "as SaslAuthenticate"])
async def test_a_wrong_size_is_refused_when_it_is_announced(
    broker: Broker, stage: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The frame itself is not waited for."""
    caplog.set_level("INFO")
    async with wire_client(servers(broker)) as client:
        if stage != "before the handshake":
            await client.call(SaslHandshakeRequest(mechanism="PLAIN"), int(stage == "as SaslAuthenticate"))
        client.send_raw(struct.pack(">i", size))
        client.writer.write_eof()  # a broker that waits for the frame closes now, without the line
        assert await client.is_closed()
    rule = f"a frame announces {size} bytes; allowed are 1 to {LARGEST_FRAME} (sasl.server.max.receive.size)"
    assert rule in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", "ANONYMOUS", "EXTERNAL", ""])
async def test_a_mechanism_cannot_be_downgraded(broker: Broker, mechanism: str) -> None:
    """Another listener has the mechanism; this one does not."""
    async with wire_client(servers(broker, "SASL")) as client:
        answer = await client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["SCRAM-SHA-512"]
        assert await client.is_closed()


async def test_the_mechanism_cannot_be_chosen_again(broker: Broker) -> None:
    async with wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        answer = await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.is_closed()


async def test_nothing_is_read_after_a_failure(broker: Broker) -> None:
    """The right password in the same packet as a wrong one."""
    async with wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wrong = frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0x"), 2, 7)
        client.send_raw(wrong + frame(SaslAuthenticateRequest(auth_bytes=PASSWORD), 2, SENTINEL))
        (answer,) = await rest(client, 2)
        assert decode_answer(answer, ApiKey.SASL_AUTHENTICATE, 2)[0] == 7


async def test_a_user_name_cannot_forge_lines_of_the_log(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await client.call(SaslAuthenticateRequest(auth_bytes=b"\0eve\nINFO all is well\0planted-password"), 2)
    lines = [record.getMessage() for record in caplog.records if "all is well" in record.getMessage()]
    assert len(lines) == 2, "one of the connection and one of the audit log"
    assert not any("\n" in line for line in lines)
    assert "planted-password" not in caplog.text


def conversations() -> list[list[bytes]]:
    """Frames of logins that fail: by each mechanism, in both versions of the handshake, of old and of new clients."""

    def after(mechanism: str, version: int, messages: tuple[bytes, ...]) -> list[bytes]:
        tokens = [SaslAuthenticateRequest(auth_bytes=message) for message in messages]
        if version == 0:
            bare = [struct.pack(">i", len(message)) + message for message in messages]
            return [frame(SaslHandshakeRequest(mechanism=mechanism), 0), *bare]
        return [frame(SaslHandshakeRequest(mechanism=mechanism), 1), *(frame(token, 2) for token in tokens)]

    unsigned = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"RS256"}', b'{"sub":"eve"}'))
    final = b"c=biws,r=abcdefghijkl,p=" + base64.b64encode(bytes(32))
    messages = {
        "PLAIN": (b"\0mallory\0attack-at-dawn",) * 2,
        "SCRAM-SHA-512": (b"n,,n=mallory,r=abcdefghijkl,tokenauth=true",) * 2,
        "SCRAM-SHA-256": (b"n,a=alice,n=alice,r=abcdefghijkl", final),
        "OAUTHBEARER": (b"n,,\x01auth=Bearer " + unsigned + b".AAAA\x01\x01", b"\x01"),
    }
    versions = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    newer = versions[:6] + struct.pack(">h", NEWER_VERSION) + versions[8:]  # the client tries an older version then
    found = [after(name, version, those) for name, those in messages.items() for version in (0, 1)]
    return [[*before, *one] for one in found for before in ([], [versions], [newer, newer, versions])]


def mutated(frames: list[bytes], rng: random.Random, wrong_sizes: float) -> bytes:
    """The bytes of a conversation with some of them changed. wrong_sizes: how often a change may be in a size."""
    frames = [bytearray(one) for one in frames]  # type: ignore[misc]
    changed = frames if rng.random() < 0.25 else [rng.choice(frames)]
    for _ in range(rng.randrange(1, 6)):
        one: Any = rng.choice(changed)
        position = rng.randrange(0 if rng.random() < wrong_sizes else 4, len(one))
        kind = rng.random()
        if kind < 0.6:
            one[position] = rng.randrange(256)
        elif kind < 0.8 and len(one) > 5:
            del one[position]
            one[:4] = struct.pack(">i", len(one) - 4)
        else:
            one[position:position] = rng.randbytes(rng.randrange(1, 9))
            one[:4] = struct.pack(">i", len(one) - 4)
    return b"".join(frames)


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize("listener", ["WEAK", "SECURE"], ids=["SASL_PLAINTEXT", "SASL_SSL"])
async def test_mutated_logins_get_nothing(broker: Broker, listener: str, caplog: pytest.LogCaptureFixture) -> None:
    """Behind each conversation is a request that only an authenticated client may make."""
    seed = chosen_seed(16)
    rng = random.Random(seed)
    told = [one[:end] for one in conversations() for end in (len(one) - 1, len(one))]  # the last token ends a login
    sentinel = frame(DescribeClusterRequest(), 0, SENTINEL)
    tls = client_tls() if listener == "SECURE" else None
    wrong_sizes = 0.05 if tls is None else 0  # a client with TLS cannot end the stream: the broker would wait for more
    frames = 0
    wanted = count(750, 25_000)
    while frames < wanted:
        frames += await attack(servers(broker, listener), mutated(rng.choice(told), rng, wrong_sizes) + sentinel, tls)
    assert "failed unexpectedly" not in caplog.text
    assert all(one.principal is ANONYMOUS for one in broker.acceptors[listener].connections)
    async with wire_client(servers(broker, listener), tls) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (await client.call(SaslAuthenticateRequest(auth_bytes=PASSWORD), 2)).error_code == 0


async def attack(address: str, data: bytes, tls: ssl.SSLContext | None) -> int:
    """Send bytes, end the stream, and check what comes back. Return how many frames the broker has read for certain."""
    async with wire_client(address, tls) as client:
        client.send_raw(data)
        if tls is None:
            client.writer.write_eof()
        answers = await rest(client, FRAMES_OF_AN_ATTACK)
    for answer in answers:
        if answer[:4] == struct.pack(">i", SENTINEL):
            response: Message = decode_answer(answer, ApiKey.DESCRIBE_CLUSTER, 0)[1]
            assert getattr(response, "error_code") == ErrorCode.ILLEGAL_SASL_STATE  # noqa: B009
    await asyncio.sleep(0)
    # Without an answer, it has read the first frame if this was whole: the connection is closed because of it.
    return len(answers) or (0 < struct.unpack_from(">i", data)[0] <= len(data) - 4)

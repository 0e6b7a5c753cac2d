"""Whole connections recorded from Apache Kafka 3.9: the same requests get the same bytes, and the same end.

The recorded nonces, salts and times are given to the broker, so that its answers do not depend on the run. What is
compared by fields and not by bytes are the answers of other APIs than the two of SASL. A pause of the recording
advances the clock.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from broker.authentication.scram_credentials import user_path
from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.api_keys import ApiKey
from protocol.json import to_json
from registry.embedded.store import EmbeddedStore
from registry.interface import Registry
from registry.znodes.configs import ConfigZnode
from registry.znodes.delegation_tokens import DelegationTokenZnode
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from security.sasl.scram import SCRAM_MECHANISMS, ClientFirst, ScramCredential, ScramMechanism, ServerFirst
from support.broker import settings
from support.reference import REFERENCE
from support.sasl import credentials, listener_settings, sasl_listeners, signed, unsecured
from support.wire import ConnectionClosedError, WireClient, decode_answer, wire_client
from support.zookeeper import new_chroot, shared_zookeeper

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECURITY = REFERENCE / "security"
RECORDED_AT_MS = 1_795_360_790_000
REAUTH_LATER_MS = 50_000
TOKEN_KEY = "token-secret"
KEYS = {
    "ApiVersions": ApiKey.API_VERSIONS,
    "Metadata": ApiKey.METADATA,
    "CreateDelegationToken": ApiKey.CREATE_DELEGATION_TOKEN,
    "DescribeDelegationToken": ApiKey.DESCRIBE_DELEGATION_TOKEN,
    "RenewDelegationToken": ApiKey.RENEW_DELEGATION_TOKEN,
}
USERS = {
    "scramuser": credentials("pencil"),
    "only512": credentials("pencil", "SCRAM-SHA-512"),
    "a,b=c": credentials("pencil", iterations=8192),
    "alice": credentials("alice-secret"),
}
TOKEN, SHORT_TOKEN = "EzBr-JXISrCixw9p9kfkuw", "1t2g7Uf8SHahl4a1SNPo6w"
TOKEN_ENDS_MS = {TOKEN: RECORDED_AT_MS + 3_600_000, SHORT_TOKEN: RECORDED_AT_MS + 1_000}
PAUSE_MS = 500
"""Recorded requests after a longer time are those for which time must pass."""


class Recorded:
    """The broker of the recordings: its clocks and its nonces are those of the case that is played."""

    def __init__(self) -> None:
        self.broker: Broker
        self.now_ms = RECORDED_AT_MS
        self.passed_s = 0.0
        self.nonces: list[str] = []

    def port(self, listener: str) -> int:
        """The port of a recorded listener, whose name begins the text."""
        return self.broker.acceptors[listener.partition(":")[0]].port

    async def begin(self, case: dict[str, Any]) -> None:
        """Set clock, nonces and salts as they were in a case."""
        self.nonces = list(server_nonces(case))
        self.now_ms = clock_of(case)
        assert self.broker.services is not None
        tokens = self.broker.services.tokens
        for token_id, mechanism, salt in salts_of_tokens(case):  # those of users are in the registry
            secret = hmac.digest(TOKEN_KEY.encode(), token_id.encode(), "sha512")
            credential = ScramCredential.of_password(mechanism, base64.b64encode(secret).decode(), salt)
            tokens._credentials[token_id, mechanism.name] = credential
        if case["scenario"].endswith("a removed token"):
            await tokens.remove_expired()

    def nonce(self) -> str:
        """The next nonce of the server."""
        return self.nonces.pop(0)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["embedded", "zookeeper"])
async def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Recorded]:
    """The broker with the listeners of the recordings, on either registry."""
    own = Recorded()
    values = {
        **settings(tmp_path_factory.mktemp("recorded") / "data"),
        **sasl_listeners("SASL", "OAUTH", "JWKS", "REAUTH"),
        **listener_settings("SASL", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        **listener_settings("OAUTH", "OAUTHBEARER"),
        **unsecured("OAUTH"),
        **listener_settings("JWKS", "OAUTHBEARER"),
        **signed("JWKS", SECURITY / "jwks.json", expected_audience="kafka,other"),
        "sasl.oauthbearer.expected.issuer": "https://issuer.example",
        **listener_settings("REAUTH", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", connections_max_reauth_ms="3000"),
        **unsecured("REAUTH"),
        "listener.name.reauth.oauthbearer.connections.max.reauth.ms": "5000",
        "connection.failed.authentication.delay.ms": "1",
        "delegation.token.secret.key": TOKEN_KEY,
    }
    async with contextlib.AsyncExitStack() as stack:
        store = None
        if request.param == "zookeeper":
            values["zookeeper.connect"] = shared_zookeeper().connect + new_chroot()
            registry: Registry = ZooKeeperRegistry(ZooKeeperAddress.parse(values["zookeeper.connect"]))
        else:
            store = await EmbeddedStore.open()
            stack.push_async_callback(store.close)
            registry = store.session()
        await put_users_and_tokens(registry)
        config = BrokerConfig.load(None, values)
        broker = await stack.enter_async_context(
            Broker(config, store=store, now_ms=lambda: own.now_ms, nonce=own.nonce)
        )
        own.broker = broker
        loop = asyncio.get_running_loop()
        for acceptor in broker.acceptors.values():
            acceptor.now_s = lambda: loop.time() + own.passed_s
        yield own


async def put_users_and_tokens(session: Registry) -> None:
    """The users and the delegation tokens of the recording."""
    await session.start()
    for user, credential in USERS.items():
        path = ConfigZnode.entity_path(user_path(user))
        await session.create(path, ConfigZnode(config=credential).encode(), make_parents=True)
    for token_id, ends_ms in TOKEN_ENDS_MS.items():
        token = DelegationTokenZnode(
            token_id=token_id,
            owner="User:alice",
            token_requester="User:alice",
            renewers=[],
            issue_timestamp_ms=RECORDED_AT_MS,
            max_timestamp_ms=ends_ms,
            expiry_timestamp_ms=ends_ms,
        )
        await session.create(DelegationTokenZnode.path(token_id), token.encode(), make_parents=True)
    await session.close()


def cases() -> Iterator[Any]:
    """Every recorded connection."""
    for number, line in enumerate((SECURITY / "sasl.jsonl").read_text().splitlines()):
        case = json.loads(line)
        yield pytest.param(case, id=f"{number}: {case['scenario']}")


def salts_of_tokens(case: dict[str, Any]) -> Iterator[tuple[str, ScramMechanism, bytes]]:
    """The tokens that log in, with the mechanism and the salt that the server has told."""
    mechanism, token_id = "", ""
    for frame in case["frames"]:
        decoded = frame.get("decoded") or {}
        mechanism = decoded.get("mechanism", mechanism)
        message = base64.b64decode(decoded.get("authBytes") or "")
        if message.startswith(b"n,,n=") and b"tokenauth=true" in message:
            token_id = ClientFirst.parse(message).user
        elif message.startswith(b"r=") and token_id:
            yield token_id, SCRAM_MECHANISMS[mechanism], ServerFirst.parse(message).salt


def sent_by_server(case: dict[str, Any]) -> Iterator[str]:
    """The SASL messages of the server."""
    for frame in case["frames"]:
        if frame["direction"] != "response":
            continue
        if "raw" in frame:
            yield frame["raw"]
        elif frame["api_name"] == "SaslAuthenticate":
            yield base64.b64decode(frame["decoded"]["authBytes"]).decode()


def server_nonces(case: dict[str, Any]) -> Iterator[str]:
    """The nonces of the server: recorded clients have one of 24 characters."""
    for message in sent_by_server(case):
        if message.startswith("r="):
            yield message.partition(",")[0][2 + 24 :]


def clock_of(case: dict[str, Any]) -> int:
    """The time when a token of a case was accepted: its end less the recorded lifetime."""
    if case["scenario"].startswith("delegation token"):
        return clock_of_token(case)
    end_s = None
    for frame in case["frames"]:
        decoded = frame.get("decoded") or {}
        token = base64.b64decode(decoded.get("authBytes") or "")
        if frame["direction"] == "request" and b"earer ey" in token:
            claims = token.partition(b"earer ")[2].split(b".")[1]
            end_s = json.loads(base64.urlsafe_b64decode(claims + b"==")).get("exp")
        lifetime_ms = decoded.get("sessionLifetimeMs", 0)
        if end_s is not None and lifetime_ms not in (0, 3000, 5000):
            return int(end_s * 1000 - lifetime_ms)
    return RECORDED_AT_MS + (REAUTH_LATER_MS if case["scenario"].startswith("reauth") else 0)


def clock_of_token(case: dict[str, Any]) -> int:
    """The same for a delegation token; one that has expired or was removed has ended."""
    if case["scenario"].endswith("an expired token"):
        return TOKEN_ENDS_MS[SHORT_TOKEN] + 1
    if case["scenario"].endswith("a removed token"):
        return TOKEN_ENDS_MS[TOKEN] + 1
    used = SHORT_TOKEN if "expires in 1 s" in case["scenario"] else TOKEN
    lifetimes_ms = {(frame.get("decoded") or {}).get("sessionLifetimeMs", 0) for frame in case["frames"]}
    found = lifetimes_ms - {0, 3000}
    return TOKEN_ENDS_MS[used] - found.pop() if found else RECORDED_AT_MS


@pytest.mark.parametrize("case", list(cases()))
async def test_a_recorded_connection(recorded: Recorded, case: dict[str, Any]) -> None:
    await recorded.begin(case)
    async with wire_client(f"127.0.0.1:{recorded.port(case['listener'])}") as client:
        for frame in case["frames"]:
            if frame["direction"] == "request":
                if frame["after_ms"] > PAUSE_MS:
                    recorded.passed_s += frame["after_ms"] / 1000
                    recorded.now_ms += frame["after_ms"]
                send(client, frame)
            elif frame["direction"] == "response":
                check(await client.receive_raw(), frame)
            elif frame["direction"] == "closed":
                with pytest.raises(ConnectionClosedError):
                    await client.receive_raw()
                return
    assert not recorded.nonces


def send(client: WireClient, frame: dict[str, Any]) -> None:
    if "frame" in frame and frame["frame"] is not None:
        data = bytes.fromhex(frame["frame"])
        client.send_raw(struct.pack(">i", len(data)) + data)
        return
    (size,) = [int(word) for word in frame["raw"].split() if word.lstrip("-").isdecimal()]
    client.send_raw(struct.pack(">i", size))


def check(answer: bytes, frame: dict[str, Any]) -> None:
    expected = bytes.fromhex(frame["frame"])
    name = frame.get("api_name")
    if name in (None, "SaslHandshake", "SaslAuthenticate"):
        assert answer == expected
        return
    assert answer[:4] == expected[:4], "the correlation id"
    key, version = KEYS[name], frame["api_version"]
    ours: Any = decode_answer(answer, key, version)[1]
    kafkas: Any = decode_answer(expected, key, version)[1]
    if name == "ApiVersions":
        assert ours.error_code == kafkas.error_code
        assert bool(ours.api_keys) == bool(kafkas.api_keys)
        return
    if name != "Metadata":
        assert to_json(ours, version) == to_json(kafkas, version)
        return
    assert [broker.node_id for broker in ours.brokers] == [broker.node_id for broker in kafkas.brokers]
    assert (ours.cluster_id, ours.controller_id, ours.topics) == (
        kafkas.cluster_id,
        kafkas.controller_id,
        kafkas.topics,
    )

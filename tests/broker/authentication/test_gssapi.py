"""GSSAPI on a listener, with tickets of a real KDC."""

from __future__ import annotations

import asyncio
import logging
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from broker.broker import Broker
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.principal import Principal
from security.sasl.gssapi_client import GssapiClient
from security.sasl.kerberos_login import KerberosLogin
from support.broker import settings
from support.kerberos import HOST, Realm, kerberos_login, running_realm
from support.polling import until
from support.sasl import gssapi, sasl_listeners
from support.wire import WireClient, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
ALICE = Principal("User", "alice")
NOT_AUTHENTICATED = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


class Running(NamedTuple):
    """A realm and a broker in it."""

    realm: Realm
    keytab: Path
    broker: Broker

    def servers(self, listener: str = "SASL") -> str:
        return f"127.0.0.1:{self.broker.acceptors[listener].port}"

    def users(self) -> set[Principal]:
        return {one.principal for acceptor in self.broker.acceptors.values() for one in acceptor.connections}

    def exchange(self, principal: str = "alice") -> GssapiClient:
        from security.sasl.kerberos import initiate  # gssapi may be missing

        return GssapiClient(initiate(KerberosLogin(str(self.keytab), principal), "kafka", HOST))


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    keytab = realm.keytab(f"kafka/{HOST}", "alice", "bob")
    values = {
        **settings(tmp_path_factory.mktemp("data")),
        **sasl_listeners("SASL", "REAUTH"),
        **gssapi("SASL", keytab, f"kafka/{HOST}"),
        **gssapi("REAUTH", keytab, f"kafka/{HOST}", connections_max_reauth_ms="60000"),
        "connection.failed.authentication.delay.ms": "1",
    }
    async with Broker(BrokerConfig.load(None, values)) as broker:
        yield Running(realm, keytab, broker)


async def is_served(client: WireClient) -> bool:
    return bool((await client.call(MetadataRequest(topics=[]), 8)).cluster_id)


async def test_a_login(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "broker.authentication.audit")
    async with wire_client(running.servers()) as client:
        assert await kerberos_login(client, running.keytab, "alice") == 0
        assert await is_served(client)
        assert ALICE in running.users()
    assert 'authenticated: principal="User:alice" host="127.0.0.1" mechanism=GSSAPI' in caplog.text


async def test_a_session_ends_only_with_connections_max_reauth_ms(running: Running) -> None:
    for listener, lifetime_ms in (("SASL", 0), ("REAUTH", 60_000)):
        exchange = running.exchange()
        async with wire_client(running.servers(listener)) as client:
            await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
            message: bytes | None = exchange.first()
            while message is not None:
                answer = await client.call(SaslAuthenticateRequest(auth_bytes=message), 1)
                message = exchange.answer(bytes(answer.auth_bytes))
            assert answer.session_lifetime_ms == lifetime_ms


async def test_the_same_user_authenticates_again(running: Running) -> None:
    async with wire_client(running.servers("REAUTH")) as client:
        assert await kerberos_login(client, running.keytab, "alice") == 0
        assert await kerberos_login(client, running.keytab, "alice") == 0
        assert await is_served(client)
        assert await kerberos_login(client, running.keytab, "bob") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()


@pytest.mark.parametrize("has_handshake", [True, False], ids=["handshake v0", "no handshake, as in Kafka 0.9"])
async def test_bare_tokens(running: Running, has_handshake: bool) -> None:
    exchange = running.exchange()
    async with wire_client(running.servers()) as client:
        if has_handshake:
            await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 0)
        message: bytes | None = exchange.first()
        while True:
            assert message is not None
            # The message after the proof of the server is empty.
            client.send_raw(struct.pack(">i", len(message)) + message)
            if exchange.is_last:
                break
            message = exchange.answer(await client.receive_raw())
        assert await is_served(client)  # the next frame is the answer to this request
        assert ALICE in running.users()


async def test_bare_tokens_that_are_none_have_no_answer(running: Running) -> None:
    async with wire_client(running.servers()) as client:
        client.send_raw(
            struct.pack(">i", 24) + bytes.fromhex("6082010078787878787878787878787878787878787878787878")[:24]
        )
        assert await client.is_closed()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_failure_is_answered_without_its_reason(
    running: Running, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    caplog.set_level(logging.INFO, "broker.authentication.audit")
    token = bytearray(running.exchange().first())
    token[-1] ^= 1
    async with wire_client(running.servers()) as client:
        await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        answer = await client.call(SaslAuthenticateRequest(auth_bytes=bytes(token)), version)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == NOT_AUTHENTICATED
        assert await client.is_closed()
    assert "mechanism=GSSAPI" in caplog.text
    assert "Decrypt integrity check failed" in caplog.text


async def test_a_replayed_token_gets_no_answer(running: Running) -> None:
    token = running.exchange().first()
    async with wire_client(running.servers()) as first, wire_client(running.servers()) as second:
        for client in (first, second):
            await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert (await first.call(SaslAuthenticateRequest(auth_bytes=token), 2)).error_code == 0
        second.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert await second.is_closed()


async def test_nothing_else_is_served_before_the_end_of_the_exchange(running: Running) -> None:
    exchange = running.exchange()
    async with wire_client(running.servers()) as client:
        await client.call(ApiVersionsRequest(), 3)
        await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        await client.call(SaslAuthenticateRequest(auth_bytes=exchange.first()), 2)
        answer = await client.call(MetadataRequest(topics=[]), 8)
        assert not answer.cluster_id
        assert await client.is_closed()


async def test_a_request_that_is_sent_with_the_token_waits_for_it(running: Running) -> None:
    """The step is in another thread; the connection handles no other frame meanwhile."""
    async with wire_client(running.servers()) as client:
        await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=running.exchange().first()), 2)
        client.send(MetadataRequest(topics=[]), 8)
        _, token = await client.receive(SaslAuthenticateRequest.API_KEY, 2)
        _, answer = await client.receive(MetadataRequest.API_KEY, 8)
        assert token.auth_bytes  # type: ignore[attr-defined]
        assert not answer.cluster_id  # type: ignore[attr-defined]


async def test_a_client_that_leaves_during_the_step(running: Running) -> None:
    before = running.users()
    async with asyncio.TaskGroup() as group:

        async def leave() -> None:
            async with wire_client(running.servers()) as client:
                await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
                client.send(SaslAuthenticateRequest(auth_bytes=b"nonsense"), 2)

        for _ in range(20):
            group.create_task(leave())
    await until(lambda: running.users() <= before, "the connections are closed")
    async with wire_client(running.servers()) as client:
        assert await kerberos_login(client, running.keytab, "alice") == 0


@pytest.mark.parametrize(
    ("keytab", "principal", "reason"),
    [
        ("/missing.keytab", f"kafka/{HOST}", "'/missing.keytab' not found"),
        (None, "kafka/elsewhere", "No key table entry found for kafka/elsewhere"),
    ],
)
async def test_a_listener_without_its_key_does_not_start(
    running: Running, tmp_path: Path, keytab: str | None, principal: str, reason: str
) -> None:
    values = settings(tmp_path) | sasl_listeners("SASL") | gssapi("SASL", keytab or running.keytab, principal)
    with pytest.raises(BrokerStartError, match=rf"listener\.name\.sasl\.gssapi\.sasl\.jaas\.config: .*{reason}"):
        async with Broker(BrokerConfig.load(None, values)):
            pass


async def test_without_the_package_a_broker_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no KDC and no package."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "security.sasl.kerberos", raising=False)
    values = settings(tmp_path) | sasl_listeners("SASL") | gssapi("SASL", tmp_path / "keytab", f"kafka/{HOST}")
    with pytest.raises(BrokerStartError, match=r"GSSAPI needs the Python package gssapi.*extra 'kerberos'"):
        async with Broker(BrokerConfig.load(None, values)):
            pass

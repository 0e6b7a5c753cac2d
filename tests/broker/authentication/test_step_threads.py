"""Steps in other threads, in a broker whose library of Kerberos is replaced: it needs neither the package nor a KDC."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import types
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.authentication.step_threads import StepThreads
from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.principal import Principal
from security.sasl.gssapi_server import GssapiServer
from security.sasl.kerberos_names import LocalNames
from support.broker import settings
from support.gss import PROOF, SIGNED, FakeContext
from support.polling import until
from support.sasl import gssapi, sasl_listeners
from support.wire import wire_client

TICKET = b"ticket:alice@REALM.COM"
CHOICE = SIGNED + b"\x01\0\0\0"


class Contexts:
    """Makes contexts whose steps wait until they are let go."""

    def __init__(self) -> None:
        self.default_realm = "REALM.COM"
        self.may_go = threading.Event()
        self.may_go.set()
        self.threads: set[threading.Thread] = set()

    def context(self) -> FakeContext:
        own = self

        class Waiting(FakeContext):
            def step(self, token: bytes | None) -> bytes | None:
                own.threads.add(threading.current_thread())
                own.may_go.wait()
                return super().step(token)

        return Waiting()


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> Contexts:
    own = Contexts()
    library = types.ModuleType("security.sasl.kerberos")
    library.Acceptor = lambda keytab, principal: own  # type: ignore[attr-defined]
    library.default_realm = lambda: own.default_realm  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library.__name__, library)
    return own


@contextlib.asynccontextmanager
async def broker_with_gssapi(folder: Path, **values: str) -> AsyncIterator[Broker]:
    kerberos = gssapi("SASL", "/keytab", "kafka/localhost")
    merged = settings(folder) | sasl_listeners("SASL") | kerberos | values
    async with Broker(BrokerConfig.load(None, merged)) as broker:
        yield broker


def servers(broker: Broker, listener: str = "SASL") -> str:
    return f"127.0.0.1:{broker.acceptors[listener].port}"


async def test_a_login(contexts: Contexts, tmp_path: Path) -> None:
    async with broker_with_gssapi(tmp_path) as broker, wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        for message, answer in ((TICKET, PROOF), (b"", CHOICE), (CHOICE, b"")):
            given = await client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
            assert (given.error_code, bytes(given.auth_bytes)) == (0, answer)
        (connection,) = broker.acceptors["SASL"].connections
        assert connection.principal == Principal("User", "alice")
        assert (await client.call(MetadataRequest(topics=[]), 8)).cluster_id
    assert threading.current_thread() not in contexts.threads


async def test_a_missing_default_realm_is_warned_about(
    contexts: Contexts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for realm, warned in (("REALM.COM", False), ("", True)):
        contexts.default_realm = realm
        async with broker_with_gssapi(tmp_path):
            assert ("krb5.conf has no default_realm" in caplog.text) == warned


async def test_other_connections_are_served_during_a_step(contexts: Contexts, tmp_path: Path) -> None:
    async with broker_with_gssapi(tmp_path) as broker, wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        contexts.may_go.clear()
        try:
            client.send(SaslAuthenticateRequest(auth_bytes=TICKET), 2)
            await until(lambda: contexts.threads, "the step has begun")
            async with wire_client(servers(broker, "PLAINTEXT")) as other:
                assert (await other.call(MetadataRequest(topics=[]), 8)).cluster_id
        finally:
            contexts.may_go.set()
        _, answer = await client.receive(SaslAuthenticateRequest.API_KEY, 2)
        assert bytes(answer.auth_bytes) == PROOF  # type: ignore[attr-defined]


@pytest.mark.parametrize("delay_ms", ["0", "1"])
async def test_a_failed_step_is_answered_and_closes(contexts: Contexts, tmp_path: Path, delay_ms: str) -> None:
    delay = {"connection.failed.authentication.delay.ms": delay_ms}
    async with broker_with_gssapi(tmp_path, **delay) as broker, wire_client(servers(broker)) as client:
        await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        answer = await client.call(SaslAuthenticateRequest(auth_bytes=b"nonsense"), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()


async def test_a_client_that_leaves_during_a_step_is_in_the_audit_log(
    contexts: Contexts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "broker.authentication.audit")
    delay = {"connection.failed.authentication.delay.ms": "300000"}
    async with broker_with_gssapi(tmp_path, **delay) as broker:
        contexts.may_go.clear()
        try:
            async with wire_client(servers(broker)) as client:
                await client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
                client.send(SaslAuthenticateRequest(auth_bytes=b"nonsense"), 2)
                await until(lambda: contexts.threads, "the step has begun")
                client.writer.transport.abort()
            await until(lambda: not broker.acceptors["SASL"].connections, "the connection is closed")
        finally:
            contexts.may_go.set()
        await until(lambda: "mechanism=GSSAPI" in caplog.text, "the failure is logged")


async def test_the_threads_end_when_the_broker_stops() -> None:
    threads = StepThreads()
    running = asyncio.create_task(threads.run())
    await asyncio.sleep(0)  # it runs
    exchange = GssapiServer(FakeContext(), LocalNames(["DEFAULT"], "REALM.COM"))
    assert await threads.step(exchange, TICKET) == PROOF
    assert names() != []
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert names() == []


def names() -> list[Any]:
    return [one.name for one in threading.enumerate() if one.name.startswith("sasl")]

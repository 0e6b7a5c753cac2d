"""The audit log: a line for each failed login, and at level DEBUG for each successful one; no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest

from broker.authentication import audit
from broker.network.limited_lines import LINES_IN_A_WINDOW, WINDOW_S
from protocol.messages.metadata import MetadataRequest
from support.broker import running_broker
from support.certificates import authority, client_certificate, other_authority
from support.polling import until
from support.sasl import listener_settings, plain_login, sasl_listeners
from support.tls_listening import TlsClient, client_tls, tls_settings
from support.wire import wire_client


async def test_logins_and_failures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    values = sasl_listeners("SASL") | listener_settings("SASL", "PLAIN")
    values["connection.failed.authentication.delay.ms"] = "0"
    async with running_broker(tmp_path / "data", **values) as broker:
        address = f"127.0.0.1:{broker.acceptors['SASL'].port}"
        async with wire_client(address) as client:
            await plain_login(client, "alice", "alice-secret")
        async with wire_client(address) as client:
            await plain_login(client, "eve\nfailed: host=", "planted-secret")
        async with wire_client(address) as client:
            client.send(MetadataRequest(topics=[]), 9)
            assert await client.is_closed()
    lines = [(one.levelno, one.getMessage()) for one in caplog.records if one.name == audit.logger.name]
    assert lines[0] == (
        logging.DEBUG,
        'authenticated: principal="User:alice" host="127.0.0.1" mechanism=PLAIN token=no listener=SASL',
    )
    assert [level for level, _ in lines[1:]] == [logging.INFO, logging.INFO]
    assert lines[1][1].startswith('failed: host="127.0.0.1" mechanism=PLAIN reason="Authentication failed: Invalid')
    assert "\n" not in lines[1][1]
    assert "mechanism=none" in lines[2][1]
    assert "planted-secret" not in caplog.text
    assert "alice-secret" not in caplog.text


async def test_client_certificates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    values = tls_settings(tmp_path) | {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/",
    }

    async def lines_of(issued: Any) -> list[tuple[int, str]]:
        caplog.clear()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with TlsClient(broker.acceptors["SSL"].port, client_tls(issued)) as client:
                await client.ask(b"x")
        await until(lambda: bool(caplog.records), "the audit log has a line")
        return [(one.levelno, one.getMessage()) for one in caplog.records if one.name == audit.logger.name]

    async with running_broker(tmp_path / "data", **values) as broker:
        assert await lines_of(client_certificate()) == [
            (
                logging.DEBUG,
                'authenticated: principal="User:client" host="127.0.0.1" mechanism=TLS token=no listener=SSL',
            )
        ]
        failed = 'failed: host="127.0.0.1" mechanism=TLS reason="'
        for issued, reason in (
            (None, "peer did not return a certificate"),
            (other_authority().issue("CN=client"), "the client certificate is refused: "),
            (authority().issue("CN=Client 7"), "the client certificate gives no user name: no rule of"),
        ):
            ((level, line),) = await lines_of(issued)
            assert level == logging.INFO
            assert line.startswith(failed)
            assert reason in line
            assert line.endswith('" listener=SSL')


def test_lines_of_refused_clients_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, audit.logger.name)
    now_s = 0.0
    failures = audit.TlsFailures("OUTSIDE", lambda: now_s)
    for _ in range(LINES_IN_A_WINDOW + 5):
        failures.add("10.0.0.1", 'a "reason"\n')
    assert len(caplog.records) == LINES_IN_A_WINDOW
    assert caplog.records[0].getMessage() == (
        r'failed: host="10.0.0.1" mechanism=TLS reason="a \"reason\"\n" listener=OUTSIDE'
    )
    caplog.clear()
    now_s = WINDOW_S
    failures.add("10.0.0.1", "again")
    assert caplog.records[0].getMessage() == "failed: 5 more clients mechanism=TLS listener=OUTSIDE"


async def test_peers_that_only_connect_are_no_failed_logins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    values = tls_settings(tmp_path) | {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"}
    async with running_broker(tmp_path / "data", **values) as broker:
        _reader, writer = await asyncio.open_connection("127.0.0.1", broker.acceptors["SSL"].port)
        writer.close()
        await until(lambda: "the client closed the connection" in caplog.text, "the handshake has failed")
        async with TlsClient(broker.acceptors["SSL"].port):
            pass  # without a certificate it has no user
    assert [one for one in caplog.records if one.name == audit.logger.name] == []

"""The audit log: a line for each failed login, and at level DEBUG for each successful one; no secrets."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from broker.authentication import audit
from protocol.messages.metadata import MetadataRequest
from support.broker import running_broker
from support.sasl import listener_settings, plain_login, sasl_listeners
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

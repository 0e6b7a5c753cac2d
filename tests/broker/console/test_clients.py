"""The clients of a broker's console: who they are, what their users may do, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.authorization import audit
from broker.broker import Broker
from broker.console.clients import CLIENT_ID
from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.admin.quotas import QuotaEntity
from support.authorization import allow, put_acls
from support.console import Answer, ask, basic, console_broker, password_file
from support.deadlines import DEADLINE_S
from support.polling import until

USERS = ("alice", "bob")
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="broker" password="secret" user_broker="secret";'
    ),
}


@contextlib.asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Broker]:
    """A broker whose listener and console need a login, with an authorizer. Alice may create topics."""
    values = SASL | {
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:broker",
        "ottla.console.authentication": "password-file",
    }
    values |= password_file(folder, **{name: f"{name}-secret" for name in USERS})
    async with console_broker(folder, values) as broker:
        put_acls(
            broker,
            [
                *(allow(f"User:{one}", "Describe", "Cluster") for one in USERS),
                allow("User:alice", "Create", "Cluster"),
                allow("User:alice", "Describe", "Topic", "made"),
            ],
        )
        yield broker


async def send(broker: Broker, user: str, path: str, method: str = "GET", **options: object) -> Answer:
    return await ask(broker, path, method=method, auth=basic(user, f"{user}-secret"), **options)


async def test_the_authorizer_decides_by_the_user_of_the_console(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    async with secured(tmp_path) as broker:
        cluster = json.loads((await send(broker, "alice", "/api/v1/session")).text)["cluster_id"]
        topics = f"/v3/clusters/{cluster}/topics"
        caplog.clear()
        made = {"json": {"topic_name": "made"}}
        assert (await send(broker, "bob", topics, "POST", **made)).status == 403
        assert (await send(broker, "alice", topics, "POST", **made)).status == 201
        lines = [one.getMessage() for one in caplog.records if "listener=console" in one.getMessage()]
        about = 'operation=Create resource=Cluster:"kafka-cluster" api=/v3/clusters/{cluster_id}/topics'
        assert [line for line in lines if line.startswith(f'denied: principal="User:bob" host="127.0.0.1" {about}')]
        assert [line for line in lines if line.startswith(f'allowed: principal="User:alice" host="127.0.0.1" {about}')]
        seen = {
            user: [one["topic_name"] for one in json.loads((await send(broker, user, topics)).text)["data"]]
            for user in USERS
        }
        assert seen == {"alice": ["made"], "bob": []}


async def test_requests_are_charged_to_the_user_of_the_brokers(tmp_path: Path) -> None:
    """Quotas of the console's user do not count there. One of the console's client id bounds all its users together."""
    async with secured(tmp_path) as broker:
        put_acls(
            broker,
            [
                allow("User:alice", "Describe", "Cluster"),
                allow("User:alice", "Create", "Cluster"),
                *(allow("User:alice", one, "Topic", "made") for one in ("Describe", "Read", "Write")),
            ],
        )
        limits = {"producer_byte_rate": 1e9, "consumer_byte_rate": 1e9, "request_percentage": 1e9}
        login = {"sasl_plain_username": "broker", "sasl_plain_password": "secret"}
        async with Admin(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            **login,
        ) as admin:
            entities = (QuotaEntity(user="alice"), QuotaEntity(user="broker", client_id=CLIENT_ID))
            await admin.alter_client_quotas(dict.fromkeys(entities, limits))
        cluster = json.loads((await send(broker, "alice", "/api/v1/session")).text)["cluster_id"]
        topics = f"/v3/clusters/{cluster}/topics"
        record = {"value": {"type": "STRING", "data": "v"}}
        assert (await send(broker, "alice", topics, "POST", json={"topic_name": "made"})).status == 201
        assert (await send(broker, "alice", f"{topics}/made/records", "POST", json=record)).status == 200
        assert json.loads((await send(broker, "alice", "/api/v1/topics/made/records")).text)["records"]
        assert broker.services is not None
        charged = {(one.quota_name, one.user, one.client_id) for one in broker.services.quotas.shares(100)}
        assert charged == {(name, "broker", CLIENT_ID) for name in limits}


async def test_they_are_opened_by_the_first_request_that_needs_them(tmp_path: Path) -> None:
    async with console_broker(tmp_path, {}) as broker:
        before = sum(len(one.connections) for one in broker.acceptors.values())
        for path in ("/healthz", "/metrics", "/topics", "/api/openapi.json"):
            assert (await ask(broker, path)).status == 200
        assert sum(len(one.connections) for one in broker.acceptors.values()) == before
        assert (await ask(broker, "/v3/clusters")).status == 200
        assert sum(len(one.connections) for one in broker.acceptors.values()) == before + 1


async def test_a_broker_that_stops_does_not_wait_for_their_requests(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):  # a record may wait for two minutes
        async with console_broker(tmp_path, {}) as broker:
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                await admin.create_topic("t", configs={"min.insync.replicas": "2"})
            cluster = json.loads((await ask(broker, "/api/v1/session")).text)["cluster_id"]
            path = f"/v3/clusters/{cluster}/topics/t/records"
            sending = asyncio.ensure_future(
                ask(broker, path, method="POST", json={"value": {"type": "STRING", "data": "a"}})
            )

            await until(lambda: broker.metrics.api("Produce").requests, "the record is sent")
        with contextlib.suppress(Exception):
            await sending

"""Secrets in every setting that may have one, and in logins: no answer, page, line of the log or repr shows them."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.broker import Broker
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from security.jaas import PLAIN_MODULE, SCRAM_MODULE
from storage.setting import ConfigError
from support.broker import running_broker
from support.certificates import authority, server_certificate
from support.console import Answer, ask
from support.sasl import plain_login, sasl_listeners, scram_login
from support.wire import ConnectionClosedError, wire_client

OF_A_STORE, OF_A_TRUST_STORE, OF_A_USER, OF_THE_BROKER, OF_TOKENS, OF_PASSWORDS, FORMER, GUESSED = SECRETS = [
    f"planted-{number}-secret" for number in range(8)
]
BROKER = 4  # the type of a resource
AT_A_TIME = 16


def broker_settings(folder: Path) -> dict[str, str]:
    server_certificate().write(folder / "server.p12", OF_A_STORE)
    authority().write(folder / "ca.p12", OF_A_TRUST_STORE)
    values = sasl_listeners("SASL")
    values["listeners"] += ",SSL://127.0.0.1:0"
    values["listener.security.protocol.map"] += ",SSL:SSL"
    sasl, tls = "listener.name.sasl.", "listener.name.ssl.ssl."
    return values | {
        f"{sasl}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{sasl}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{OF_A_USER}";',
        f"{sasl}scram-sha-256.sasl.jaas.config": f'{SCRAM_MODULE} required username="b" password="{OF_THE_BROKER}";',
        f"{tls}keystore.type": "PKCS12",
        f"{tls}keystore.location": str(folder / "server.p12"),
        f"{tls}keystore.password": OF_A_STORE,
        f"{tls}key.password": OF_A_STORE,
        f"{tls}truststore.type": "PKCS12",
        f"{tls}truststore.location": str(folder / "ca.p12"),
        f"{tls}truststore.password": OF_A_TRUST_STORE,
        "delegation.token.secret.key": OF_TOKENS,
        "password.encoder.secret": OF_PASSWORDS,
        "password.encoder.old.secret": FORMER,
        "ottla.console.listener": "127.0.0.1:0",
    }


async def answers(broker: Broker) -> AsyncIterator[str]:
    """What clients are told about the settings, and about logins that succeed and fail."""
    async with wire_client(f"127.0.0.1:{broker.acceptors['PLAINTEXT'].port}") as client:
        for name in ("", str(broker.config.broker_id)):
            one = DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=None)
            request = DescribeConfigsRequest(resources=[one], include_synonyms=True, include_documentation=True)
            answer = repr(await client.call(request))
            assert not name or "delegation.token.secret.key" in answer
            yield answer
    for password in (OF_A_USER, GUESSED):
        for login in (plain_login, scram_login):
            async with wire_client(f"127.0.0.1:{broker.acceptors['SASL'].port}") as client:
                try:
                    yield repr(await login(client, "alice", password))
                except ConnectionClosedError as error:
                    yield repr(error)


async def pages(broker: Broker) -> AsyncIterator[str]:
    """Every address of the console's APIs that is read with GET and ends, and the pages about the broker."""
    broker_id = str(broker.config.broker_id)
    cluster_id = json.loads((await ask(broker, "/api/v1/session")).text)["cluster_id"]
    paths = json.loads((await ask(broker, "/api/openapi.json")).text)["paths"]
    read = [path for path, methods in paths.items() if "get" in methods and not path.endswith(("/live", "/stream"))]
    known = {"{cluster_id}": cluster_id, "{broker_id}": broker_id}
    read += ["/metrics", "/brokers", f"/brokers/{broker_id}", "/security"]
    urls = [re.sub(r"\{\w+}", lambda found: known.get(found.group(), "x"), path) for path in read]
    found: list[Answer] = []
    for first in range(0, len(urls), AT_A_TIME):
        found += await asyncio.gather(*(ask(broker, url) for url in urls[first : first + AT_A_TIME]))
    assert sum(answer.status == 200 for answer in found) > 20
    for answer in found:
        yield answer.text


def forms(secret: str) -> tuple[str, str, str]:
    """How a secret may be written: as it is, in hex, and in base64 without its end, which may have other letters."""
    data = secret.encode()
    return secret, data.hex(), base64.b64encode(data).decode()[:12]


@pytest.mark.asyncio
async def test_nothing_shows_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_broker(tmp_path / "data", **broker_settings(tmp_path)) as broker:
        seen = [text async for text in answers(broker)] + [text async for text in pages(broker)]
        seen += [repr(broker.config), repr(vars(broker)), repr(broker.services)]
        seen += [repr(vars(acceptor)) for acceptor in broker.acceptors.values()]
    seen.append(caplog.text)
    assert "Invalid username or password, user 'alice'" in caplog.text
    for secret in SECRETS:
        for form in forms(secret):
            assert not [text for text in seen if form in text]


@pytest.mark.parametrize(
    "changed",
    [
        {"listener.name.ssl.ssl.keystore.password": GUESSED},
        {"listener.name.ssl.ssl.truststore.password": GUESSED},
        {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{GUESSED};'},
        {"delegation.token.secret.kee": GUESSED},
        {"ssl.keystore.passphrase": GUESSED},
        {"com.example.secret": GUESSED},
        {"delegation.token.secret.key": f"{GUESSED}\ud800"},
        {"password.encoder.secret": f"{GUESSED}\udcff"},
        {"listener.name.ssl.ssl.keystore.password": f"{GUESSED}\ud800"},
        {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{GUESSED}\ud800";'},
    ],
)
@pytest.mark.asyncio
async def test_no_error_of_a_start_shows_a_secret(tmp_path: Path, changed: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        async with running_broker(tmp_path / "data", **broker_settings(tmp_path) | changed):
            pass
    assert not [secret for secret in SECRETS if secret in str(caught.value) + repr(caught.value)]

"""Secrets in settings, logins, tokens and requests: no `repr` of an object of the product shows one, and no exception.

All objects are looked at that the product makes while a broker serves clients of its own: also requests and answers,
which live for a moment. `test_planted_secrets.py` looks at answers, pages and the log.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from broker.broker import Broker
from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.admin.tokens import DelegationToken
from client.admin.types import ConfigChange, ResourceType
from client.consumer.consumer import Consumer
from client.errors import DelegationTokenNotFoundError, SaslAuthenticationError
from client.producer.producer import Producer
from client.zookeeper.consumer import ZooKeeperConsumer
from console.v1.delegation_tokens import CreatedToken
from protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion
from registry.embedded.store import EmbeddedStore
from registry.embedded.tree import KeptSession
from registry.server.server import RegistryServer
from registry.zookeeper.security import DigestLogin
from security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, ZOOKEEPER_MODULE
from security.sasl.scram import ScramCredential
from security.sasl.unsecured_tokens import UnsecuredTokens
from support.broker import running_broker
from support.certificates import authority, server_certificate
from support.cluster_security import unsigned_token
from support.console import ask, basic, password_file, token_file
from support.made_objects import MadeObjects
from support.sasl import SCRAM, sasl_listeners, unsecured
from support.secured_zookeeper import USERS, secured_zookeeper
from support.web_server import served
from support.zookeeper import new_chroot

(
    OF_A_STORE,
    OF_A_TRUST_STORE,
    OF_ANOTHER_STORE,
    OF_ALICE,
    OF_BOB,
    OF_CAROL,
    OF_DAVE,
    OF_EVE,
    OF_THE_BROKER,
    OF_ALL_TOKENS,
    OF_PASSWORDS,
    OF_SCHEMAS,
    OF_AN_OPTION,
    OF_A_CLIENTS_OPTION,
    OF_AN_ENDPOINT,
    GUESSED,
) = PLANTED = [f"planted-{number:02}-secret" for number in range(16)]
CHANGED_LOCATION, CHANGED_PASSWORD = (f"listener.name.ssl.ssl.truststore.{name}" for name in ("location", "password"))
TOKEN = unsigned_token("alice")
OAUTHBEARER_LOGIN = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="alice" ssl.truststore.password='


def broker_settings(folder: Path) -> dict[str, str]:
    """Settings with a secret in each that may have one; brokers and the console log in with PLAIN."""
    server_certificate().write(folder / "server.p12", OF_A_STORE)
    authority().write(folder / "ca.p12", OF_A_TRUST_STORE)
    authority().write(folder / "new-ca.p12", OF_ANOTHER_STORE)
    values = sasl_listeners("SASL")
    values["listeners"] += ",SSL://127.0.0.1:0"
    values["listener.security.protocol.map"] += ",SSL:SSL"
    sasl, tls, users = "listener.name.sasl.", "listener.name.ssl.ssl.", f'user_alice="{OF_ALICE}"'
    own = f'username="broker" password="{OF_THE_BROKER}" user_broker="{OF_THE_BROKER}"'
    values |= unsecured("SASL") | password_file(folder, carol=OF_CAROL) | token_file(folder, dave=OF_DAVE)
    return values | {
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:broker;User:alice;User:bob",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "connection.failed.authentication.delay.ms": "0",
        f"{sasl}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{sasl}plain.sasl.jaas.config": f"{PLAIN_MODULE} required {own} {users};",
        f"{sasl}scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{sasl}oauthbearer.sasl.jaas.config": f'{OAUTHBEARER_LOGIN}"{OF_AN_OPTION}";',
        f"{tls}keystore.type": "PKCS12",
        f"{tls}keystore.location": str(folder / "server.p12"),
        f"{tls}keystore.password": OF_A_STORE,
        f"{tls}key.password": OF_A_STORE,
        f"{tls}truststore.type": "PKCS12",
        f"{tls}truststore.location": str(folder / "ca.p12"),
        f"{tls}truststore.password": OF_A_TRUST_STORE,
        "delegation.token.secret.key": OF_ALL_TOKENS,
        "password.encoder.secret": OF_PASSWORDS,
        "ottla.console.listener": "127.0.0.1:0",
        "ottla.console.authentication": "scram,password-file,token-file",
        "ottla.console.schema.registry.basic.auth.user.info": f"user:{OF_SCHEMAS}",
        "ottla.console.schema.registry.url": "http://127.0.0.1:9",
    }


def options(broker: Broker, mechanism: str, **others: Any) -> dict[str, Any]:
    """The options of a client."""
    servers = f"127.0.0.1:{broker.acceptors['SASL'].port}"
    found = {"bootstrap_servers": servers, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    return found | others


def password(broker: Broker, user: str, secret: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    """The options of a client with a password."""
    return options(broker, mechanism, sasl_plain_username=user, sasl_plain_password=secret)


async def use_clients(broker: Broker, folder: Path) -> None:
    """Change users, tokens and settings, and log in with each mechanism, also with a wrong password."""
    changes = {CHANGED_LOCATION: str(folder / "new-ca.p12"), CHANGED_PASSWORD: OF_ANOTHER_STORE}
    async with Admin(**password(broker, "alice", OF_ALICE)) as admin:
        await admin.set_scram_password("bob", OF_BOB, SCRAM)
        token = await admin.create_delegation_token()
        assert await admin.describe_delegation_tokens() == [token]
        await admin.renew_delegation_token(token.hmac)
        with pytest.raises(DelegationTokenNotFoundError):
            await admin.renew_delegation_token(GUESSED.encode())
        values = [ConfigChange(name, value) for name, value in changes.items()]
        await admin.incremental_alter_configs(ResourceType.BROKER, str(broker.config.broker_id), values)
    async with Producer(**password(broker, "bob", OF_BOB, "SCRAM-SHA-256")) as producer:
        await producer.send("topic", b"value")
    jaas = f'{SCRAM_MODULE} required username="{token.token_id}" password="{token.password}" tokenauth=true;'
    reading: dict[str, Any] = {"group_id": "group", "auto_offset_reset": "earliest"}
    async with Consumer("topic", **options(broker, "SCRAM-SHA-256", sasl_jaas_config=jaas), **reading) as consumer:
        assert (await anext(aiter(consumer))).value == b"value"
    await use_tokens(broker)
    for wrong in (
        password(broker, "alice", GUESSED),
        password(broker, "bob", GUESSED, "SCRAM-SHA-256"),
        options(broker, "OAUTHBEARER", sasl_oauth_token_provider=lambda: GUESSED),
    ):
        with pytest.raises(SaslAuthenticationError):
            await Admin(**wrong).start()


async def use_tokens(broker: Broker) -> None:
    """Log in with tokens of OAUTHBEARER from each of their sources."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"access_token": TOKEN, "expires_in": 3600})

    async with served(answer) as port:
        name = "sasl_oauthbearer_client_credentials_client"
        endpoint = {f"{name}_id": "client", f"{name}_secret": OF_AN_ENDPOINT}
        endpoint["sasl_oauthbearer_token_endpoint_url"] = f"http://127.0.0.1:{port}/token"
        unsigned = {"sasl_jaas_config": f'{OAUTHBEARER_LOGIN}"{OF_A_CLIENTS_OPTION}";'}
        for source in (endpoint, unsigned, {"sasl_oauth_token_provider": lambda: TOKEN}):
            async with Admin(**options(broker, "OAUTHBEARER", **source)) as admin:
                await admin.describe_cluster()


async def use_console(broker: Broker) -> None:
    """Log in in each way, create a token and a user, change a password, and read what is near secrets."""
    bob = basic("bob", OF_BOB)
    for login, status in (
        (basic("carol", OF_CAROL), 403),
        (f"Bearer {OF_DAVE}", 403),
        (bob, 200),
        (basic("carol", GUESSED), 401),
    ):
        assert (await ask(broker, "/api/v1/session", auth=login)).status == status
    cluster_id = json.loads((await ask(broker, "/api/v1/session", auth=bob)).text)["cluster_id"]
    user = {"name": "eve", "password": OF_EVE}
    for path, body in (("/api/v1/delegation-tokens", {}), ("/api/v1/users", user)):
        answer = await ask(broker, path, method="POST", auth=bob, json=body)
        assert answer.status == 201, answer
    configs = f"/v3/clusters/{cluster_id}/brokers/{broker.config.broker_id}/configs"
    value = {"value": OF_ANOTHER_STORE}
    changes = {"data": [value | {"name": CHANGED_PASSWORD}]}
    for method, path, body in (("PUT", f"{configs}/{CHANGED_PASSWORD}", value), ("POST", f"{configs}:alter", changes)):
        assert (await ask(broker, path, method=method, auth=bob, json=body)).status == 204
    wrong = {"name": "eve", "password": [OF_EVE]}
    assert (await ask(broker, "/api/v1/users", method="POST", auth=bob, json=wrong)).status == 400
    for path in ("/api/v1/delegation-tokens", configs):
        assert (await ask(broker, path, auth=bob)).status == 200


def derived(made: Iterable[object]) -> list[bytes]:
    """Secrets that were made meanwhile: keys of SCRAM, salted passwords, delegation tokens, sessions of ZooKeeper."""
    fields = {
        ScramCredential: ("stored_key", "server_key"),
        ScramCredentialUpsertion: ("salted_password",),
        DelegationToken: ("hmac",),
        KeptSession: ("password",),
    }
    found = [(type(one), getattr(one, name)) for one in made for name in fields.get(type(one), ())]
    found += [(CreatedToken, base64.b64decode(one.password)) for one in made if isinstance(one, CreatedToken)]
    assert {kind for kind, _ in found} == {*fields, CreatedToken}
    return [bytes(secret) for _, secret in found if len(secret) > 8]


def shown(made: Iterable[object], secrets: Iterable[str | bytes]) -> set[str]:
    """The names of classes whose `repr`, or text if they are exceptions, contains a secret in some form."""
    forms = set()
    for secret in secrets:
        data = secret.encode() if isinstance(secret, str) else secret
        forms |= {repr(data)[2:-1], data.hex(), base64.b64encode(data).decode()[:12]}
    found = set()
    for one in made:
        if type(one).__repr__ is not object.__repr__:
            text = repr(one) + (str(one) if isinstance(one, BaseException) else "")
            if any(form in text for form in forms):
                found.add(f"{type(one).__module__}.{type(one).__qualname__}")
    return found


@pytest.mark.asyncio
async def test_no_repr_shows_a_secret_of_a_broker_and_its_clients(tmp_path: Path) -> None:
    with MadeObjects() as objects:
        server = RegistryServer(await EmbeddedStore.open())
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(server.close)
            await server.start()
            values = broker_settings(tmp_path) | {"zookeeper.connect": f"127.0.0.1:{server.port}"}
            broker = await stack.enter_async_context(running_broker(tmp_path / "data", **values))
            await use_clients(broker, tmp_path)
            await use_console(broker)
            made = list(objects)
    assert any(isinstance(one, UnsecuredTokens) for one in made)
    assert shown(made, [*PLANTED, TOKEN, *derived(made)]) == set()


@pytest.mark.asyncio
async def test_no_repr_shows_a_secret_of_zookeeper(tmp_path: Path) -> None:
    server, user = secured_zookeeper(), "kafka"
    jaas = f'{ZOOKEEPER_MODULE} required username="{user}" password="{USERS[user]}";'
    connect = f"{server.tls_address}{new_chroot()}"
    authority().write(tmp_path / "ca.p12", OF_A_TRUST_STORE)
    stores = {"location": str(tmp_path / "ca.p12"), "password": OF_A_TRUST_STORE}
    values = {
        "zookeeper.connect": connect,
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "ottla.zookeeper.sasl.jaas.config": jaas,
    }
    values |= {f"zookeeper.ssl.truststore.{name}": value for name, value in stores.items()}
    with MadeObjects() as objects:
        async with running_broker(tmp_path / "data", **values), contextlib.AsyncExitStack() as stack:
            consumer = ZooKeeperConsumer(
                ["topic"],
                zookeeper_connect=connect,
                group_id="group",
                zookeeper_ssl_client_enable=True,
                zookeeper_sasl_jaas_config=jaas,
                **{f"zookeeper_ssl_truststore_{name}": value for name, value in stores.items()},
            )
            await stack.enter_async_context(consumer)
            made = list(objects)
    assert any(isinstance(one, DigestLogin) for one in made)
    assert shown(made, [USERS[user], OF_A_TRUST_STORE]) == set()

"""The settings of connections between brokers, seen in a live broker that connects to itself."""

import asyncio
import base64
import json
import time

import pytest
from aiohttp import web

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from storage.setting import ConfigError
from support.broker import settings
from support.certificates import authority
from support.effects import shows
from support.polling import until
from support.sasl import HANDLER, UNSECURED_HANDLER, credentials, store_with_users
from support.tls_listening import tls_settings
from support.wire import create_topic, fetch, wire_client

PREFIX = "listener.name.internal."
LISTENER = {
    "listeners": "INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def users(broker):
    """Those that are logged in."""
    return {connection.principal.name for connection in broker.acceptors["INTERNAL"].connections}


@shows("sasl.mechanism.inter.broker.protocol")
async def test_brokers_log_in_with_the_mechanism(tmp_path):
    mechanisms = {
        f"{PREFIX}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{PREFIX}plain.sasl.jaas.config": f"{PLAIN_MODULE} required username=one password=p user_one=p;",
        f"{PREFIX}scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required username=two password=p;",
    }
    for mechanism, user in (("PLAIN", "one"), ("SCRAM-SHA-256", "two")):
        chosen = {"sasl.mechanism.inter.broker.protocol": mechanism}
        store = await store_with_users({"two": credentials("p")})
        config = BrokerConfig.load(None, settings(tmp_path / mechanism) | LISTENER | mechanisms | chosen)
        async with Broker(config, store=store) as broker:
            await until(lambda broker=broker, user=user: users(broker) == {user}, "the broker is logged in")
        await store.close()


@shows("sasl.oauthbearer.token.endpoint.url")
async def test_brokers_fetch_their_tokens(tmp_path):
    def part(content):
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    async def token(request):
        claims = {"sub": request.headers["Authorization"], "iat": time.time(), "exp": time.time() + 600}
        return web.json_response({"access_token": f"{part({'alg': 'none'})}.{part(claims)}."})

    app = web.Application()
    app.router.add_post("/token", token)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    mechanism = {
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{runner.addresses[0][1]}/token",
        f"{PREFIX}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}oauthbearer.{HANDLER}": UNSECURED_HANDLER,
        f"{PREFIX}oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required clientId=me clientSecret=s;",
    }
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data") | LISTENER | mechanism)) as broker:
        sent = "Basic " + base64.b64encode(b"me:s").decode()
        await until(lambda: users(broker) == {sent}, "the broker is logged in")
    await runner.cleanup()


@shows("ssl.endpoint.identification.algorithm")
async def test_whether_brokers_verify_the_names_of_others(tmp_path, caplog):
    tls = {
        "listener.security.protocol.map": "INTERNAL:SSL",
        **tls_settings(tmp_path, server=authority().issue("CN=broker", sans=("elsewhere.example",))),
    }
    values = settings(tmp_path / "data") | LISTENER | tls
    unverified = BrokerConfig.load(None, values | {"ssl.endpoint.identification.algorithm": ""})
    assert not [warning for warning in unverified.warnings if "has no effect" in warning]
    async with Broker(unverified) as broker:
        await until(lambda: broker.acceptors["INTERNAL"].connections, "the broker has connected to itself")
    assert "IP address mismatch" not in caplog.text
    broker = Broker(BrokerConfig.load(None, values))
    running = asyncio.create_task(broker.run())
    await until(lambda: "IP address mismatch" in caplog.text, "the broker refuses the certificate")
    broker.stop()
    await running


@shows("control.plane.listener.name")
async def test_the_controller_has_a_listener_of_its_own(tmp_path):
    both = {
        "listeners": "INTERNAL://127.0.0.1:0,CONTROL://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CONTROL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "control.plane.listener.name": "CONTROL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.control.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.control.plain.sasl.jaas.config": f"{PLAIN_MODULE} required username=one password=p user_one=p;",
    }
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data") | both)) as broker:
        (connection,) = broker.acceptors["CONTROL"].connections
        assert connection.principal.name == "one"
        await until(lambda: broker.metadata.snapshot.controller_id >= 0, "the controller's metadata")


@shows("ottla.inter.broker.listener.names")
@pytest.mark.parametrize(("named", "is_answered"), [("", False), ("former", True)], ids=["not named", "named"])
async def test_brokers_are_answered_on_another_listener_that_is_named(tmp_path, named, is_answered):
    own = {
        "listeners": "INTERNAL://127.0.0.1:0,FORMER://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,FORMER:PLAINTEXT,CLIENTS:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "ottla.inter.broker.listener.names": named,
    }
    shutdown = ControlledShutdownRequest(broker_id=7, broker_epoch=1)
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data") | own)) as broker:
        codes = {}
        for listener, acceptor in broker.acceptors.items():
            async with wire_client(f"127.0.0.1:{acceptor.port}") as client:
                await create_topic(client, listener.lower())
                of_a_broker = (await client.call(shutdown)).error_code
                answer = await client.call(fetch(listener.lower(), replica_id=7), 12)
                codes[listener] = of_a_broker, answer.responses[0].partitions[0].error_code
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert refused[0] != codes["INTERNAL"][0]
        assert refused[1] != codes["INTERNAL"][1]
        assert codes["CLIENTS"] == refused
        assert codes["FORMER"] == (codes["INTERNAL"] if is_answered else refused)


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"control.plane.listener.name": "INTERNAL"}, "another one than the inter-broker listener"),
        ({"control.plane.listener.name": "OTHER"}, "must be an advertised listener"),
        ({"ottla.inter.broker.listener.names": "other,INTERNAL"}, "OTHER must be among the names in listeners"),
        ({"early.start.listeners": "OTHER"}, "OTHER must be among the names in listeners"),
    ],
)
def test_listeners_that_are_not_there(changed, rule):
    plain = {"listeners": "INTERNAL://127.0.0.1:0", "listener.security.protocol.map": "INTERNAL:PLAINTEXT"}
    with pytest.raises(ConfigError, match=rule):
        BrokerConfig.load(None, plain | {"inter.broker.listener.name": "INTERNAL"} | changed)


def test_early_start_listeners_may_name_a_listener():
    plain = {"listeners": "INTERNAL://127.0.0.1:0", "listener.security.protocol.map": "INTERNAL:PLAINTEXT"}
    BrokerConfig.load(None, plain | {"inter.broker.listener.name": "INTERNAL", "early.start.listeners": "internal"})

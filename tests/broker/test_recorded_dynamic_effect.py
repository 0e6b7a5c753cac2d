"""Which dynamic changes of security take effect: the steps of dynamic-effect.jsonl, recorded from Kafka."""

import json

from broker.broker import Broker
from broker.settings.checks import ACL_AUTHORIZER
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.describe_acls import DescribeAclsRequest
from security.jaas import PLAIN_MODULE
from support.broker import settings
from support.reference import REFERENCE
from support.sasl import plain_login
from support.tls_listening import alter_broker
from support.wire import ConnectionClosedError, wire_client

STEPS = [json.loads(line) for line in (REFERENCE / "security" / "dynamic-effect.jsonl").read_text().splitlines()]
USERS = " ".join(f'user_{name}="{name}-secret"' for name in ("admin", "alice", "bob"))
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="admin" password="admin-secret" {USERS};'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": "User:admin",
    "password.encoder.secret": "encoder-secret",
}
REFUSED = {"super.users", "allow.everyone.if.no.acl.found", "listeners"}
"""Kafka accepts the first two without an effect, and can change the listeners of a broker that runs."""


def address(broker):
    return f"127.0.0.1:{broker.acceptors['SASL_PLAINTEXT'].port}"


async def login(broker, user):
    """The error of a login, or Closed as in the recording."""
    async with wire_client(address(broker)) as client:
        try:
            return (await plain_login(client, user, f"{user}-secret")).error_code
        except ConnectionClosedError:
            return "Closed"


async def describe_acls(broker, user):
    """The error of DescribeAcls."""
    async with wire_client(address(broker)) as client:
        assert (await plain_login(client, user, f"{user}-secret")).error_code == 0
        everything = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
        return (await client.call(everything, 3)).error_code


async def effects(broker, step):
    """What a step was tried for."""
    tried = {
        "login_erin": lambda: login(broker, "erin"),
        "login_alice": lambda: login(broker, "alice"),
        "login_bob_removed": lambda: login(broker, "bob"),
        "describe_acls_by_alice": lambda: describe_acls(broker, "alice"),
    }
    return {name: await attempt() for name, attempt in tried.items() if name in step}


async def test_the_recorded_steps(tmp_path):
    config = BrokerConfig.load(None, settings(tmp_path / "data") | SETTINGS)
    async with Broker(config) as broker, wire_client(address(broker)) as admin:
        await plain_login(admin, "admin", "admin-secret")
        for step in STEPS:
            is_refused = bool(REFUSED & step["set"].keys()) and any(step["set"].values())
            code, _ = await alter_broker(admin, step["set"], step["resource"])
            assert code == (ErrorCode.INVALID_REQUEST if is_refused else step["error_code"]), step["step"]
            recorded = {name: step[name] for name in step if not name.endswith("_listener")}
            found = await effects(broker, step)
            assert found == {name: recorded[name] for name in found}, step["step"]

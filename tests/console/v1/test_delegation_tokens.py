"""Delegation tokens for the pages: the secret is only in the answer that creates the token."""

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.errors import KafkaError
from ottla import testing
from security.jaas import SCRAM_MODULE
from security.principal import Principal
from support.polling import until
from support.rest import rest_api
from support.sasl import listener_settings, sasl_listeners

PATH = "/api/v1/delegation-tokens"
ALICE = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "alice-secret",
}


@pytest.fixture(scope="module")
def servers():
    values = {**sasl_listeners("SASL"), **listener_settings("SASL", "PLAIN", "SCRAM-SHA-256")}
    with testing.broker({**values, "delegation.token.secret.key": "key"}) as broker:
        yield broker.bootstrap_servers


async def test_a_token_is_created_renewed_and_expired(servers):
    async with rest_api(servers, **ALICE) as rest:
        created = await rest.ask("POST", PATH, {"renewers": ["User:bob"], "max_lifetime_ms": 3_600_000})
        assert created.status == 201, created
        token, password = created.body["token"], created.body["password"]
        assert (token["owner"], token["renewers"]) == ("User:alice", ["User:bob"])
        assert token["max_timestamp_ms"] - token["issue_timestamp_ms"] == 3_600_000

        async def is_listed():
            return await rest.get(PATH) == {"may_end": True, "tokens": [token]}

        await until(is_listed, "the token is listed")
        assert password not in str(await rest.get(PATH))
        jaas = f'{SCRAM_MODULE} required username="{token["token_id"]}" password="{password}" tokenauth="true";'
        login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": jaas, "security_protocol": "SASL_PLAINTEXT"}
        async with Admin(bootstrap_servers=servers, **login) as admin:
            assert (await admin.describe_cluster()).brokers
        renewed = await rest.ask("POST", f"{PATH}/{token['token_id']}/renew", {"period_ms": 60_000})
        assert renewed.status == 200
        assert renewed.body["expiry_timestamp_ms"] < token["max_timestamp_ms"]
        assert (await rest.ask("POST", f"{PATH}/{token['token_id']}/expire", {})).status == 200

        async def is_gone():
            return (await rest.get(PATH))["tokens"] == []

        await until(is_gone, "the token is gone")


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("", {"renewers": ["bob"]}, 400, "renewers"),
        ("", {"max_lifetime_ms": 0}, 400, "max_lifetime_ms"),
        ("/nothing/renew", {}, 404, "nothing"),
        ("/nothing/expire", {"period_ms": -1}, 400, "period_ms"),
    ],
)
async def test_errors(servers, path, body, status, text):
    async with rest_api(servers, **ALICE) as rest:
        answer = await rest.ask("POST", PATH + path, body)
        assert answer.status == status, answer
        assert text in answer.body["message"]


async def test_a_login_and_a_key_are_needed():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            answer = await rest.ask("GET", PATH)
            assert (answer.status, answer.body["error_code"]) == (400, 400)
            assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in answer.body["message"]
    values = {**sasl_listeners("SASL"), **listener_settings("SASL", "PLAIN")}
    with testing.broker(values) as broker:
        async with rest_api(broker.bootstrap_servers, **ALICE) as rest:
            answer = await rest.ask("POST", PATH, {})
            assert answer.status == 400
            assert "DELEGATION_TOKEN_AUTH_DISABLED" in answer.body["message"]


async def test_a_token_of_another_owner_needs_the_right_to_it():
    """What a broker's own console asks for: a token of the user who has logged in there."""
    values = {**sasl_listeners("SASL"), **listener_settings("SASL", "PLAIN"), "delegation.token.secret.key": "key"}
    carol = Principal("User", "carol")
    with testing.broker(
        {**values, "authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:alice;User:ANONYMOUS"}
    ) as broker:
        options = {"bootstrap_servers": broker.bootstrap_servers, **ALICE}
        async with Admin(**options) as admin:
            assert (await admin.create_delegation_token(owner=carol)).owner == carol
        other = options | {"sasl_plain_username": "admin", "sasl_plain_password": "admin-secret"}
        async with Admin(**other) as admin:
            with pytest.raises(KafkaError, match="DELEGATION_TOKEN_AUTHORIZATION_FAILED"):
                await admin.create_delegation_token(owner=carol)

"""Whether a cluster has users, ACLs, quotas and delegation tokens."""

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from ottla import testing
from support.mock_cluster import MockCluster
from support.rest import rest_api
from support.sasl import listener_settings, sasl_listeners

SUBJECTS = ("users", "acls", "quotas", "tokens")
ALICE = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "alice-secret",
}
ADMIN = {"sasl_plain_username": "admin", "sasl_plain_password": "admin-secret"}
"""Has no right."""
SASL = {
    **sasl_listeners("SASL"),
    **listener_settings("SASL", "PLAIN"),
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": "User:alice;User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def foreign():
    return MockCluster()


async def missing(rest):
    return {one: (await rest.get(f"/api/v1/security?of={one}"))["missing"] for one in SUBJECTS}


async def test_a_broker_without_logins_has_neither_acls_nor_tokens():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            assert await missing(rest) == {
                "users": None,
                "acls": "SECURITY_DISABLED",
                "quotas": None,
                "tokens": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
            }


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [({}, "DELEGATION_TOKEN_AUTH_DISABLED"), ({"delegation.token.secret.key": "key"}, None)],
    ids=["without a key", "with a key"],
)
async def test_tokens_need_a_key(settings, tokens):
    with testing.broker(SASL | settings) as broker:
        async with rest_api(broker.bootstrap_servers, **ALICE) as rest:
            assert await missing(rest) == dict.fromkeys(SUBJECTS[:3]) | {"tokens": tokens}


async def test_another_cluster_serves_none_of_it(foreign):
    async with rest_api(foreign.bootstrap) as rest:
        assert await missing(rest) == dict.fromkeys(SUBJECTS, "NOT_SERVED")


async def test_another_error_is_answered_as_one():
    with testing.broker(SASL) as broker:
        async with rest_api(broker.bootstrap_servers, **ALICE | ADMIN) as rest:
            answer = await rest.ask("GET", "/api/v1/security?of=acls")
            assert answer.status == 403, answer


async def test_what_is_asked_for_is_one_of_four(foreign):
    async with rest_api(foreign.bootstrap) as rest:
        assert (await rest.ask("GET", "/api/v1/security?of=nothing")).status == 400

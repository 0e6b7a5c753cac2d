"""Access control lists over the REST API."""

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from ottla import testing
from support.polling import until
from support.rest import rest_api

READ = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
WRITE = READ | {"pattern_type": "PREFIXED", "principal": "User:bob", "operation": "WRITE"}


@pytest.fixture(scope="module")
def broker_settings():
    return {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:ANONYMOUS"}


def fields(found):
    return [{name: one[name] for name in READ} for one in found["data"]]


async def test_entries_are_created_selected_and_deleted(rest):
    assert (await rest.ask("POST", "acls", READ)).status == 201
    lower = {name: value.lower() if value.isupper() else value for name, value in WRITE.items()}
    assert (await rest.ask("POST", "acls:batch", {"data": [READ, lower]})).status == 201

    async def both():
        return fields(await rest.get("acls")) == [READ, WRITE]

    await until(both, "both entries are listed")
    assert fields(await rest.get("acls", params={"principal": "User:bob"})) == [WRITE]
    assert fields(await rest.get("acls", params={"resource_name": "orders2", "pattern_type": "match"})) == [WRITE]
    listed = (await rest.get("acls", params={"operation": "READ"}))["data"]
    assert (await rest.get(listed[0]["metadata"]["self"].removeprefix(rest.url)))["data"] == listed
    deleted = await rest.ask("DELETE", "acls", params=WRITE)
    assert (deleted.status, fields(deleted.body)) == (200, [WRITE])

    async def one():
        return fields(await rest.get("acls")) == [READ]

    await until(one, "one entry is left")


@pytest.mark.parametrize(
    ("method", "path", "body", "text"),
    [
        ("POST", "acls", READ | {"operation": "LICK"}, "operation"),
        ("POST", "acls", READ | {"resource_type": "ANY"}, "resource_type"),
        ("POST", "acls", {"resource_type": "TOPIC"}, "resource_name"),
        ("POST", "acls", READ | {"principal": "alice"}, "principal"),
        ("GET", "acls?operation=LICK", None, "operation"),
        ("DELETE", "acls", None, "resource_type"),
        ("DELETE", "acls?resource_type=TOPIC&pattern_type=ANY&operation=ANY", None, "permission"),
    ],
)
async def test_errors(rest, method, path, body, text):
    answer = await rest.ask(method, path, body)
    assert answer.status == 400, answer
    assert text in answer.body["message"]


async def test_a_cluster_without_an_authorizer():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as rest:
            for method, body in (("GET", None), ("POST", READ)):
                answer = await rest.ask(method, "acls", body)
                assert (answer.status, answer.body["error_code"]) == (400, 40002)
                assert "SECURITY_DISABLED" in answer.body["message"]

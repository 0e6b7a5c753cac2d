"""DescribeAcls, CreateAcls and DeleteAcls: every request that was recorded from Apache Kafka.

Each is tried on the embedded registry and on a real ZooKeeper. The order of ACLs is that of Kafka's sets, and is not
compared; nor are error messages.
"""

from __future__ import annotations

import json

import pytest
import pytest_asyncio

from protocol.api_keys import request_class
from protocol.error_codes import ErrorCode
from protocol.headers import RequestHeader, request_header_version
from protocol.json import to_json
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from security.acls.binding import AclFilter
from support.authorization import acls_of, allow, authorized_broker, authorizer_of, client_of, send_recorded
from support.broker import running_broker
from support.reference import REFERENCE
from support.wire import wire_client
from support.zookeeper import new_chroot, shared_zookeeper

pytestmark = pytest.mark.asyncio(loop_scope="module")
REGISTRIES = ["embedded", "zookeeper"]


def recorded():
    with (REFERENCE / "security" / "acl-api.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


LINES = recorded()
FIXTURE = next(one for one in LINES if one["case"] == "fixture")
BY_FAMILY = {
    family: [one for one in LINES if one["case"].startswith(family)]
    for family in ("znodes:", "describe v", "delete v", "create v", "no authorizer configured")
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=REGISTRIES)
async def broker(request, tmp_path_factory):
    overrides = {}
    if request.param == "zookeeper":
        overrides["zookeeper_connect"] = f"{shared_zookeeper().connect}{new_chroot()}"
    async with authorized_broker(tmp_path_factory.mktemp("data"), **overrides) as running:
        yield running


def sorted_json(value):
    """Without messages, and lists of ACLs in one order."""
    if isinstance(value, dict):
        return {name: sorted_json(one) for name, one in value.items() if name != "errorMessage"}
    if isinstance(value, list):
        return sorted((sorted_json(one) for one in value), key=repr)
    return value


def expected_of(one):
    return "closed" if one["response"] is None else one["response_json"]


async def start_with(broker, one=FIXTURE):
    """Let the ACLs of a recorded CreateAcls be the only ones."""
    await authorizer_of(broker).delete([AclFilter()])
    if one is not None:
        async with client_of(broker, "User:admin") as client:
            assert await send_recorded(client, one) != "closed"


@pytest.mark.parametrize("one", BY_FAMILY["describe v"], ids=lambda one: one["case"])
async def test_describe(broker, one):
    if len(acls_of(broker)) != len(FIXTURE["request_json"]["creations"]):
        await start_with(broker)
    async with client_of(broker, one["principal"]) as client:
        assert sorted_json(await send_recorded(client, one)) == sorted_json(expected_of(one))


@pytest.mark.parametrize("one", BY_FAMILY["delete v"], ids=lambda one: one["case"])
async def test_delete(broker, one):
    await start_with(broker)
    before = acls_of(broker)
    async with client_of(broker, one["principal"]) as client:
        answer = await send_recorded(client, one)
    assert sorted_json(answer) == sorted_json(expected_of(one))
    deleted = 0 if answer == "closed" else sum(len(found["matchingAcls"]) for found in answer["filterResults"])
    assert len(acls_of(broker)) == len(before) - deleted


@pytest.mark.parametrize("one", BY_FAMILY["create v"], ids=lambda one: one["case"])
async def test_create(broker, one):
    await start_with(broker, None)
    async with client_of(broker, one["principal"]) as client:
        answer = await send_recorded(client, one)
    assert sorted_json(answer) == sorted_json(expected_of(one))
    created = 0 if answer == "closed" else sum(not found["errorCode"] for found in answer["results"])
    assert len(acls_of(broker)) == created


async def test_the_steps_of_the_znodes(broker):
    await start_with(broker, None)
    for one in BY_FAMILY["znodes:"]:
        async with client_of(broker, one["principal"]) as client:
            assert sorted_json(await send_recorded(client, one)) == sorted_json(expected_of(one)), one["case"]


@pytest.mark.parametrize("version", range(4))
async def test_who_may_not_alter_the_cluster(broker, version):
    await start_with(broker, None)
    creation = AclCreation(
        resource_type=2, resource_name="t", principal="User:alice", host="*", operation=3, permission_type=3
    )
    every = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async with client_of(broker, "User:alice") as alice:
        (result,) = (await alice.call(CreateAclsRequest(creations=[creation]), version)).results
        assert result.error_code == refused
        (result,) = (await alice.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**every)]), version)).filter_results
        assert result.error_code == refused
        assert (await alice.call(DescribeAclsRequest(**every), version)).error_code == refused
        assert acls_of(broker) == set()
        await authorizer_of(broker).create([allow("User:alice", "Alter", "Cluster")])
        (result,) = (await alice.call(CreateAclsRequest(creations=[creation]), version)).results
        assert result.error_code == 0


@pytest.mark.parametrize("one", BY_FAMILY["no authorizer configured"][:12], ids=lambda one: str(one["api_key"]))
async def test_without_an_authorizer(plain_broker, one):
    async with wire_client(plain_broker.bootstrap_servers) as client:
        assert sorted_json(await send_recorded(client, one)) == sorted_json(one["response_json"])


@pytest.mark.parametrize("one", BY_FAMILY["no authorizer configured"][12:], ids=lambda one: one["api_name"])
async def test_without_an_authorizer_everything_is_allowed(plain_broker, one):
    key, version, data = one["api_key"], one["api_version"], bytes.fromhex(one["request"])
    _, offset = RequestHeader.decode(data, request_header_version(key, version))
    request, _ = request_class(key).decode(data, version, offset)

    def operations(value):
        if isinstance(value, dict):
            for name, content in value.items():
                if name.endswith("uthorizedOperations"):
                    yield content
                else:
                    yield from operations(content)
        elif isinstance(value, list):
            for content in value:
                yield from operations(content)

    async with wire_client(plain_broker.bootstrap_servers) as client:
        answer = to_json(await client.call(request, version), version)
    assert sorted(operations(answer)) == sorted(operations(one["response_json"]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain_broker(tmp_path_factory):
    async with running_broker(tmp_path_factory.mktemp("plain")) as running:
        async with wire_client(running.bootstrap_servers) as client:
            await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        yield running

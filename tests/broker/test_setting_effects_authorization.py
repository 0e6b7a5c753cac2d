"""The settings of authorization, seen in a live broker."""

from __future__ import annotations

import sys
import types

import pytest

from broker.errors import BrokerStartError
from broker.settings.checks import ACL_AUTHORIZER
from broker.settings.config import BrokerConfig
from ottla.authorizer import Authorizer, Operation, Principal, ResourceType
from protocol.messages.describe_acls import DescribeAclsRequest
from storage.setting import ConfigError
from support.authorization import allow, authorized_broker, authorizer_of, client_of
from support.broker import running_broker
from support.effects import shows
from support.wire import append, batch, create_topic, wire_client

DENIED = 29


async def outcome(broker, principal, topic="t"):
    async with client_of(broker, principal) as client:
        return (await append(client, topic, batch(b"v"))).error_code


@shows("authorizer.class.name", "super.users")
async def test_an_authorizer_denies_everybody_but_super_users(tmp_path):
    async with authorized_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as admin:
        await create_topic(admin, "t")
        assert await outcome(broker, "User:admin") == 0
        assert await outcome(broker, "User:alice") == DENIED
        await authorizer_of(broker).create([allow("User:alice", "Write", "Topic", "t")])
        assert await outcome(broker, "User:alice") == 0
        assert await outcome(broker, "User:bob") == DENIED


@shows("allow.everyone.if.no.acl.found")
async def test_a_resource_without_acls_is_open_if_configured(tmp_path):
    overrides = {"allow_everyone_if_no_acl_found": "true"}
    async with authorized_broker(tmp_path / "data", **overrides) as broker:
        async with wire_client(broker.bootstrap_servers) as admin:
            await create_topic(admin, "t")
        assert await outcome(broker, "User:alice") == 0
        await authorizer_of(broker).create([allow("User:bob", "Write", "Topic", "t")])
        assert await outcome(broker, "User:alice") == DENIED


class OnlyAlice(Authorizer):
    """Allows User:alice and the brokers everything."""

    started = False

    async def start(self) -> None:
        OnlyAlice.started = True

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return principal.name in ("alice", "ANONYMOUS")


@pytest.fixture
def plugin(monkeypatch):
    module = types.ModuleType("my_authorizers")
    module.OnlyAlice, module.Plain = OnlyAlice, object
    monkeypatch.setitem(sys.modules, "my_authorizers", module)
    return module


@shows("ottla.authorizer")
async def test_an_authorizer_of_ones_own(tmp_path, plugin):
    async with running_broker(tmp_path / "data", ottla_authorizer="my_authorizers:OnlyAlice") as broker:
        assert OnlyAlice.started
        async with wire_client(broker.bootstrap_servers) as client:
            await create_topic(client, "t")
            every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
            assert (await client.call(DescribeAclsRequest(**every))).error_code == 54
        assert await outcome(broker, "User:alice") == 0
        assert await outcome(broker, "User:bob") == DENIED


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("my_authorizers", "must be an import path"),
        ("no_such_module:Class", "cannot be imported: No module named 'no_such_module'"),
        ("my_authorizers:Missing", "cannot be imported"),
        ("my_authorizers:Plain", "must be a subclass of ottla.authorizer.Authorizer"),
    ],
)
async def test_an_authorizer_that_cannot_be_made_stops_the_start(tmp_path, plugin, path, why):
    with pytest.raises(BrokerStartError, match=f"ottla.authorizer={path}: {why}"):
        async with running_broker(tmp_path / "data", ottla_authorizer=path):
            pass


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"authorizer.class.name": "no.Such"}, "authorizer.class.name"),
        ({"authorizer.class.name": ACL_AUTHORIZER, "super.users": "alice"}, "super.users"),
        ({"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:a;;User:b"}, "super.users"),
        ({"authorizer.class.name": ACL_AUTHORIZER, "ottla.authorizer": "a:B"}, "ottla.authorizer"),
        ({"allow.everyone.if.no.acl.found": "maybe"}, "allow.everyone.if.no.acl.found"),
        ({"allow.everyone.if.no.acl.found": ""}, "allow.everyone.if.no.acl.found"),
        ({"authorizer.zookeeper.url": "other:2181"}, "authorizer.zookeeper.url"),
    ],
)
def test_settings_that_contradict_the_rules_are_refused(given, name):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(given)
    assert caught.value.name == name


def test_super_users_without_an_authorizer_are_a_warning():
    assert BrokerConfig({"super.users": "alice"}).warnings == [
        "super.users has no effect without authorizer.class.name: clients may do everything"
    ]

"""The admin client's part about access control lists, against our broker."""

import pytest

from client.admin.admin import Admin
from client.errors import ClusterAuthorizationError, InvalidRequestError, KafkaError, SecurityDisabledError
from ottla.acls import AccessRule, AclBinding, AclFilter, Operation, PatternType, Permission, ResourcePattern
from ottla.acls import ResourceType as Kind
from support.authorization import allow, authorized_broker, authorizer_of
from support.broker import running_broker
from support.deadlines import DEADLINE_MS

READ_T = allow("User:alice", "Read", "Topic", "t")
WRITE_P = allow("User:bob", "Write", "Topic", "p", "prefixed", host="127.0.0.1")


@pytest.fixture
async def broker(tmp_path):
    async with authorized_broker(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=DEADLINE_MS) as opened:
        yield opened


async def test_acls_are_created_described_and_deleted(admin):
    assert await admin.create_acls([READ_T, WRITE_P, READ_T]) == {READ_T: None, WRITE_P: None}
    assert await admin.describe_acls() == sorted([READ_T, WRITE_P])
    assert await admin.describe_acls(AclFilter(Kind.TOPIC, "parts", PatternType.MATCH)) == [WRITE_P]
    assert await admin.describe_acls(AclFilter(principal="User:alice")) == [READ_T]
    bobs, nobodys = AclFilter(principal="User:bob"), AclFilter(principal="User:nobody")
    assert await admin.delete_acls([bobs, nobodys]) == {bobs: [WRITE_P], nobodys: []}
    assert await admin.describe_acls() == [READ_T]


async def test_an_invalid_acl_is_an_error_of_its_own(admin):
    rule = AccessRule("User:alice", "*", Operation.READ, Permission.ALLOW)
    invalid = AclBinding(ResourcePattern(Kind.TOPIC, "", PatternType.LITERAL), rule)
    outcomes = await admin.create_acls([invalid, READ_T])
    assert isinstance(outcomes[invalid], InvalidRequestError)
    assert outcomes[READ_T] is None


async def test_nothing_is_asked_for_nothing(admin):
    assert await admin.create_acls([]) == {}
    assert await admin.delete_acls([]) == {}


async def test_a_user_who_may_not_alter_the_cluster(broker, admin, monkeypatch):
    monkeypatch.setattr(authorizer_of(broker), "allows", lambda *asked: False)
    authorizer_of(broker).changed()
    with pytest.raises(ClusterAuthorizationError):
        await admin.describe_acls()
    (error,) = (await admin.create_acls([READ_T])).values()
    assert isinstance(error, ClusterAuthorizationError)
    (error,) = (await admin.delete_acls([AclFilter()])).values()
    assert isinstance(error, KafkaError)
    monkeypatch.undo()
    authorizer_of(broker).changed()


async def test_a_broker_without_an_authorizer(tmp_path):
    async with (
        running_broker(tmp_path / "data") as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=DEADLINE_MS) as admin,
    ):
        with pytest.raises(SecurityDisabledError):
            await admin.describe_acls()

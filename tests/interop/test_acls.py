"""Clients of several vendors at a broker with Kafka's AclAuthorizer: alice, and the admin who changes its ACLs."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from broker.settings.checks import ACL_AUTHORIZER
from ottla import testing
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka
from support.sasl import listener_settings, sasl_listeners

ANY = {"restype": ResourceType.ANY, "name": None, "resource_pattern_type": ResourcePatternType.ANY}
EVERY = AclBindingFilter(
    **ANY, principal=None, host=None, operation=AclOperation.ANY, permission_type=AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    values = {
        **settings(tmp_path_factory.mktemp("acls") / "data"),
        **sasl_listeners("SASL"),
        **listener_settings("SASL", "PLAIN"),
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    with testing.broker(values) as running:
        yield running.bootstrap_servers


def login(servers, user, **others):
    """librdkafka's settings."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        **others,
    }


@pytest.fixture
def admin(servers):
    client = AdminClient(login(servers, "admin"))
    yield client
    client.delete_acls([EVERY])[EVERY].result(DEADLINE_S)


def acl(kind, name, operation, permission=AclPermissionType.ALLOW, pattern=ResourcePatternType.LITERAL):
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, permission)


def give(admin, *acls):
    for done in admin.create_acls(list(acls)).values():
        done.result(DEADLINE_S)


def create_topic(admin, name):
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_S)


def test_acls_by_confluent_kafka(admin):
    read = acl(ResourceType.TOPIC, "orders", AclOperation.READ)
    deny = acl(ResourceType.GROUP, "g", AclOperation.ALL, AclPermissionType.DENY, ResourcePatternType.PREFIXED)
    give(admin, read, deny)
    assert set(admin.describe_acls(EVERY).result(DEADLINE_S)) == {read, deny}
    topics = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.MATCH,
        "User:alice",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(topics).result(DEADLINE_S) == [read]
    assert list(admin.delete_acls([topics])[topics].result(DEADLINE_S)) == [read]
    assert admin.describe_acls(EVERY).result(DEADLINE_S) == [deny]


def test_a_user_without_rights_cannot_change_acls(servers, admin):
    give(admin, acl(ResourceType.TOPIC, "orders", AclOperation.READ))
    alice = AdminClient(login(servers, "alice"))
    assert alice.describe_acls(EVERY).result(DEADLINE_S) == []  # librdkafka drops the error of the answer
    own = acl(ResourceType.TOPIC, "*", AclOperation.ALL)
    with pytest.raises(KafkaException) as raised:
        alice.create_acls([own])[own].result(DEADLINE_S)
    assert raised.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_confluent_kafka_is_refused_and_allowed(servers, admin):
    topic = "by-confluent"
    create_topic(admin, topic)
    assert deliver(servers, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert topic not in AdminClient(login(servers, "alice")).list_topics(timeout=DEADLINE_S).topics
    give(admin, acl(ResourceType.TOPIC, topic, AclOperation.WRITE))
    assert deliver(servers, topic) is None
    assert consume(servers, topic) in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    give(admin, acl(ResourceType.TOPIC, "by-", AclOperation.READ, pattern=ResourcePatternType.PREFIXED))
    assert consume(servers, topic) == KafkaError.GROUP_AUTHORIZATION_FAILED
    give(admin, acl(ResourceType.GROUP, "readers", AclOperation.READ))
    assert consume(servers, topic) == b"value"
    give(admin, acl(ResourceType.TOPIC, topic, AclOperation.READ, AclPermissionType.DENY))
    assert consume(servers, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def deliver(servers, topic):
    """The error code of a record that alice sends; None if it is delivered."""
    codes = []
    producer = Producer(login(servers, "alice"))
    producer.produce(topic, b"value", on_delivery=lambda error, _: codes.append(error and error.code()))
    assert producer.flush(DEADLINE_S) == 0
    return codes[0]


def consume(servers, topic):
    """The value of the first record that alice reads, or an error code."""
    consumer = Consumer(login(servers, "alice", **{"group.id": "readers", "auto.offset.reset": "earliest"}))
    try:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        return message.value() if message.error() is None else message.error().code()
    finally:
        consumer.close()


def test_aiokafka_is_refused_and_allowed(servers, admin):
    topic = "by-aiokafka"
    create_topic(admin, topic)
    options = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }

    async def send():
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"value")

    async def read():
        consumer = AIOKafkaConsumer(topic, group_id="readers", auto_offset_reset="earliest", **options)
        try:
            await consumer.start()
            return (await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value
        finally:
            await consumer.stop()

    with pytest.raises(TopicAuthorizationFailedError):
        asyncio.run(send())
    give(admin, acl(ResourceType.TOPIC, topic, AclOperation.WRITE), acl(ResourceType.TOPIC, topic, AclOperation.READ))
    asyncio.run(send())
    with pytest.raises(GroupAuthorizationFailedError):
        asyncio.run(read())
    give(admin, acl(ResourceType.GROUP, "readers", AclOperation.READ))
    assert asyncio.run(read()) == b"value"


def test_acls_by_kafka_python(servers, admin):
    from kafka import admin as theirs

    client = kafka.KafkaAdminClient(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password="admin-secret",
    )
    try:
        pattern = theirs.ResourcePattern(theirs.ResourceType.TOPIC, "orders")
        one = theirs.ACL("User:alice", "*", theirs.ACLOperation.READ, theirs.ACLPermissionType.ALLOW, pattern)
        created = client.create_acls([one])
        assert created["succeeded"] == [one]
        every = theirs.ACLFilter(
            None,
            None,
            theirs.ACLOperation.ANY,
            theirs.ACLPermissionType.ANY,
            theirs.ResourcePatternFilter(theirs.ResourceType.ANY, None, theirs.ACLResourcePatternType.ANY),
        )
        found, error = client.describe_acls(every)
        assert (found, error.errno) == ([one], 0)
        ((_, deleted, error),) = client.delete_acls([every])
        assert deleted == [one]
        assert error.errno == 0
        assert client.describe_acls(every)[0] == []
    finally:
        client.close()

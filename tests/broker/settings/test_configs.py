"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: what is told, what is refused, and that it acts."""

from __future__ import annotations

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import AlterableConfig as Change
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from registry.embedded.store import EmbeddedStore
from registry.znodes.configs import ConfigChangeZnode, TopicConfigZnode
from support.broker import running_broker, settings
from support.live import Clock
from support.polling import until
from support.wire import append, batch, create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)


async def describe(client, kind, name, keys=None, version=4, **fields):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    answer = await client.call(DescribeConfigsRequest(resources=[resource], **fields), version)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def value(client, kind, name, key):
    result = await describe(client, kind, name, [key])
    assert result.error_code == 0
    return [(one.value, one.config_source) for one in result.configs]


async def alter(client, kind, name, values, version=2, validate_only=False):
    configs = [AlterableConfig(name=key, value=text) for key, text in values]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = await client.call(AlterConfigsRequest(resources=[resource], validate_only=validate_only), version)
    (response,) = answer.responses
    assert (response.error_message is None) == (response.error_code == 0)
    return response.error_code


async def change(client, kind, name, operations, version=1, validate_only=False):
    configs = [Change(name=key, config_operation=operation, value=text) for key, operation, text in operations]
    resource = ChangedResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = (await client.call(request, version)).responses
    assert (response.error_message is None) == (response.error_code == 0)
    return response.error_code


# -- DescribeConfigs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_describe_a_topic(client, name, version):
    topic = name()
    await create_topic(client, topic, retention_ms="77")
    result = await describe(client, TOPIC, topic, version=version)
    assert result.error_code == 0
    found = {one.name: one for one in result.configs}
    assert len(found) > 25
    retention, segment = found["retention.ms"], found["segment.ms"]
    assert (retention.value, retention.read_only, retention.is_sensitive) == ("77", False, False)
    if version >= 1:
        assert (retention.config_source, segment.config_source) == (DYNAMIC_TOPIC, DEFAULT)
    else:
        assert (retention.is_default, segment.is_default) == (False, True)
    assert retention.synonyms == []
    if version >= 3:
        assert retention.config_type == 5
        assert retention.documentation is None
        full = await describe(client, TOPIC, topic, ["retention.ms"], version, include_documentation=True)
        assert full.configs[0].documentation
    if version >= 1:
        full = await describe(client, TOPIC, topic, ["retention.ms", "nothing"], version, include_synonyms=True)
        (one,) = full.configs
        assert next((each.name, each.source) for each in one.synonyms) == ("retention.ms", DYNAMIC_TOPIC)
    assert len((await describe(client, TOPIC, topic, [], version)).configs) == len(found)


@pytest.mark.parametrize("version", range(5))
async def test_describe_a_broker_and_all_brokers(client, version):
    result = await describe(client, BROKER, "0", version=version)
    found = {one.name: one for one in result.configs}
    assert result.error_code == 0
    assert len(found) > 200
    assert found["broker.id"].read_only
    assert not found["log.retention.ms"].read_only
    assert found["ssl.key.password"].is_sensitive
    assert found["ssl.key.password"].value is None
    assert (await describe(client, BROKER, "", version=version)).configs == []


async def test_describe_unknown_resources(client):
    for kind, name, code in (
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER, "00", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
        (-1, "x", ErrorCode.INVALID_REQUEST),
    ):
        if (kind, name) == (BROKER, "00"):
            continue
        result = await describe(client, kind, name)
        assert (result.error_code, result.configs) == (code, []), (kind, name)
    assert (await client.call(DescribeConfigsRequest(resources=[]))).results == []


async def test_a_broker_describes_itself_without_a_connection_to_the_registry(tmp_path):
    store, sessions = await EmbeddedStore.open(), []
    open_session = store.session
    store.session = lambda timeout: sessions.append(open_session(timeout)) or sessions[-1]
    config = BrokerConfig.load(None, settings(tmp_path / "data", zookeeper_session_timeout_ms="600000"))
    async with Broker(config, store=store) as broker, wire_client(broker.bootstrap_servers) as client:
        sessions[0].disconnect()
        assert await value(client, BROKER, "0", "log.retention.hours") == [("168", DEFAULT)]
        sessions[0].reconnect()
    await store.close()


# -- topics ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_replaces_all_settings(broker, client, name, version):
    topic = name()
    await create_topic(client, topic, retention_ms="77", segment_bytes="5000")
    values = [("max.message.bytes", "900"), ("retention.bytes", "9")]
    assert await alter(client, TOPIC, topic, values, version, validate_only=True) == 0
    assert await value(client, TOPIC, topic, "retention.ms") == [("77", DYNAMIC_TOPIC)]
    assert await alter(client, TOPIC, topic, values, version) == 0
    assert await value(client, TOPIC, topic, "retention.ms") == [("604800000", DEFAULT)]
    assert await value(client, TOPIC, topic, "max.message.bytes") == [("900", DYNAMIC_TOPIC)]
    assert (await append(client, topic, batch(b"v" * 1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert broker.services.logs.get(topic, 0).config.segment_bytes == 1 << 30
    assert await alter(client, TOPIC, topic, [], version) == 0
    assert await value(client, TOPIC, topic, "max.message.bytes") == [("1048588", DEFAULT)]
    assert (await append(client, topic, batch(b"v" * 1000))).error_code == 0


@pytest.mark.parametrize("version", range(2))
async def test_change_single_settings(client, name, version):
    topic = name()
    await create_topic(client, topic, retention_ms="77")
    operations = [("max.message.bytes", SET, "900"), ("cleanup.policy", APPEND, "compact")]
    assert await change(client, TOPIC, topic, operations, version, validate_only=True) == 0
    assert await value(client, TOPIC, topic, "cleanup.policy") == [("delete", DEFAULT)]
    assert await change(client, TOPIC, topic, operations, version) == 0
    assert await value(client, TOPIC, topic, "retention.ms") == [("77", DYNAMIC_TOPIC)]
    assert await value(client, TOPIC, topic, "cleanup.policy") == [("delete,compact", DYNAMIC_TOPIC)]
    refused = await append(client, topic, batch(b"v", key=None))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert await change(client, TOPIC, topic, [("cleanup.policy", SUBTRACT, "compact")], version) == 0
    assert await change(client, TOPIC, topic, [("retention.ms", DELETE, None)], version) == 0
    assert await change(client, TOPIC, topic, [("retention.ms", DELETE, None)], version) == 0
    assert await value(client, TOPIC, topic, "retention.ms") == [("604800000", DEFAULT)]
    assert (await append(client, topic, batch(b"v", key=None))).error_code == 0


REFUSED = [
    ([("no.such", "1")], ErrorCode.INVALID_CONFIG),
    ([("retention.ms", "soon")], ErrorCode.INVALID_CONFIG),
    ([("segment.bytes", "1")], ErrorCode.INVALID_CONFIG),
    ([("retention.ms", None)], ErrorCode.INVALID_REQUEST),
    ([("retention.ms", "1"), ("retention.ms", "2")], ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("values", "code"), REFUSED)
async def test_refused_settings(client, name, values, code):
    topic = name()
    await create_topic(client, topic, retention_bytes="5")
    assert await alter(client, TOPIC, topic, values) == code
    assert await change(client, TOPIC, topic, [(key, SET, text) for key, text in values]) == code
    assert await value(client, TOPIC, topic, "retention.bytes") == [("5", DYNAMIC_TOPIC)]


async def test_refused_operations(client, name):
    topic = name()
    await create_topic(client, topic)
    for operation in (4, -1, 99):
        code = await change(client, TOPIC, topic, [("retention.ms", operation, "1")])
        assert code == ErrorCode.INVALID_REQUEST
    for operation in (APPEND, SUBTRACT):
        code = await change(client, TOPIC, topic, [("retention.ms", operation, "1")])
        assert code == ErrorCode.INVALID_CONFIG


async def test_refused_resources(client, name):
    topic = name()
    await create_topic(client, topic)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
    for kind, resource, code in (
        (TOPIC, "missing", unknown),
        (TOPIC, "a/b", unknown),
        (TOPIC, "", invalid),
        (BROKER, "7", invalid),
        (BROKER, "x", invalid),
        (0, topic, invalid),
        (99, topic, invalid),
    ):
        assert await alter(client, kind, resource, []) == code, (kind, resource)
        assert await change(client, kind, resource, []) == code, (kind, resource)
    twice = [ChangedResource(resource_type=TOPIC, resource_name=topic, configs=[]) for _ in range(2)]
    answer = await client.call(IncrementalAlterConfigsRequest(resources=twice))
    assert [one.error_code for one in answer.responses] == [invalid] * 2
    twice = [AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[]) for _ in range(2)]
    answer = await client.call(AlterConfigsRequest(resources=twice))
    assert [one.error_code for one in answer.responses] == [invalid] * 2


# -- brokers -----------------------------------------------------------------------------------------------------------


async def test_broker_settings_apply_to_logs(tmp_path):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        log = broker.services.logs.get("t", 0)
        assert await change(client, BROKER, "", [("log.retention.ms", SET, "5000")], validate_only=True) == 0
        assert await value(client, BROKER, "", "log.retention.ms") == []
        assert await change(client, BROKER, "", [("log.retention.ms", SET, "5000")]) == 0
        assert await value(client, BROKER, "", "log.retention.ms") == [("5000", DYNAMIC_DEFAULT)]
        await until(lambda: log.config.retention_ms == 5000, "the setting of all brokers acts")
        assert await change(client, BROKER, "0", [("log.retention.ms", SET, "6000")]) == 0
        await until(lambda: log.config.retention_ms == 6000, "the broker's own setting acts")
        assert await value(client, BROKER, "0", "log.retention.ms") == [("6000", DYNAMIC_BROKER)]
        result = await describe(client, TOPIC, "t", ["retention.ms"], include_synonyms=True)
        assert [(one.name, one.value, one.source) for one in result.configs[0].synonyms][:2] == [
            ("log.retention.ms", "6000", DYNAMIC_BROKER),
            ("log.retention.ms", "5000", DYNAMIC_DEFAULT),
        ]
        assert await change(client, BROKER, "0", [("log.retention.ms", DELETE, None)]) == 0
        await until(lambda: log.config.retention_ms == 5000, "the setting of all brokers acts again")
        assert await alter(client, BROKER, "", [("message.max.bytes", "500")]) == 0
        await until(lambda: log.config.max_message_bytes == 500, "AlterConfigs acts")
        assert log.config.retention_ms == 604800000
        assert (await append(client, "t", batch(b"v" * 600))).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_broker_settings_that_cannot_change(client):
    invalid = ErrorCode.INVALID_REQUEST
    for name in ("0", ""):
        for key, text in (("broker.id", "5"), ("log.retention.ms", "soon"), ("log.segment.bytes", "1")):
            assert await change(client, BROKER, name, [(key, SET, text)]) == invalid, (name, key)
            assert await alter(client, BROKER, name, [(key, text)]) == invalid, (name, key)
        assert (await describe(client, BROKER, "")).configs == []


async def test_invalid_settings_written_by_others_are_ignored_and_the_rest_applies(tmp_path, caplog):
    store = await EmbeddedStore.open()
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    async with Broker(config, store=store) as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t", retention_ms="7000")
        registry = store.session()
        await registry.start()

        async def write(data, notification):
            await registry.set(TopicConfigZnode.path("t"), data)
            await registry.create(ConfigChangeZnode.path(), notification, sequence=True)

        changed = ConfigChangeZnode(entity_path="topics/t").encode()
        wrong = TopicConfigZnode(config={"retention.ms": "soon"}).encode()
        right = TopicConfigZnode(config={"retention.ms": "5000"}).encode()
        log = broker.services.logs.get("t", 0)
        await write(b"[]", changed)
        await until(lambda: "settings are ignored" in caplog.text, "no settings can be read")
        await until(lambda: log.config.retention_ms == 604_800_000, "the default holds")
        await write(right, changed)
        await until(lambda: log.config.retention_ms == 5000, "they are right")
        await write(wrong, b"{nonsense")
        await write(wrong, changed)
        await until(lambda: "settings of topic t are ignored" in caplog.text, "they break a rule")
        assert "a change of settings is ignored" in caplog.text
        await until(lambda: log.config.retention_ms == 604_800_000, "the default holds")
        await registry.close()
    await store.close()


async def test_change_notifications_are_removed_after_15_minutes(tmp_path):
    clock = Clock()
    store = await EmbeddedStore.open(now_ms=clock)
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    async with Broker(config, store=store, now_ms=clock) as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        assert await alter(client, TOPIC, "t", [("retention.ms", "5000")]) == 0
        clock.now_ms += 15 * 60 * 1000 + 1
        assert await alter(client, TOPIC, "t", [("retention.ms", "6000")]) == 0
        changes = "/config/changes"
        await until(lambda: set(store.tree.children(changes)) == {"config_change_0000000001"}, "the first is gone")
    await store.close()


# -- topics that are created -------------------------------------------------------------------------------------------


async def test_settings_left_by_a_failed_creation_are_ignored(tmp_path):
    """Settings are written before the topic is, as in Kafka; nobody is notified of a creation."""
    store = await EmbeddedStore.open()
    registry = store.session()
    await registry.start()
    left = TopicConfigZnode(config={"segment.bytes": "5000"}).encode()
    await registry.create(TopicConfigZnode.path("t"), left, make_parents=True)
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    async with Broker(config, store=store) as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t", retention_ms="7000")
        assert await value(client, TOPIC, "t", "retention.ms") == [("7000", DYNAMIC_TOPIC)]
        assert broker.services.configs.topic_overrides("t") == {"retention.ms": "7000"}
        assert await registry.children("/config/changes") == []
    await store.close()

"""Settings that change while the broker runs."""

import csv

import pytest

from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.config import BrokerConfig
from broker.settings.described import ConfigSource
from broker.settings.dynamic import (
    AlterOperation,
    AlterRequestError,
    DynamicBrokerConfig,
    alter,
    replace,
)
from storage.log.config import TOPIC_SETTINGS
from storage.setting import ConfigError
from support.reference import REFERENCE

SET, DELETE, APPEND, SUBTRACT = AlterOperation


BYTES, MS, POLICY = "segment.bytes", "flush.ms", "cleanup.policy"


@pytest.mark.parametrize(
    ("current", "operations", "after"),
    [
        ({}, [(BYTES, SET, "5")], {BYTES: "5"}),
        ({BYTES: "4"}, [(BYTES, SET, "5"), (MS, SET, "6")], {BYTES: "5", MS: "6"}),
        ({BYTES: "4"}, [(BYTES, DELETE, None)], {}),
        ({}, [(BYTES, DELETE, None)], {}),
        ({}, [(POLICY, APPEND, "compact")], {POLICY: "delete,compact"}),
        ({POLICY: "compact"}, [(POLICY, APPEND, "compact,delete")], {POLICY: "compact,delete"}),
        ({POLICY: ""}, [(POLICY, APPEND, "compact")], {POLICY: "compact"}),
        ({POLICY: "delete,compact"}, [(POLICY, SUBTRACT, "delete")], {POLICY: "compact"}),
        ({}, [(POLICY, SUBTRACT, "delete")], {POLICY: ""}),
        ({POLICY: "compact"}, [(POLICY, SUBTRACT, "delete")], {POLICY: "compact"}),
        ({}, [("unheard.of", SET, "5")], {"unheard.of": "5"}),
    ],
)
def test_alter(current, operations, after):
    before = dict(current)
    assert alter(current, operations, TOPIC_SETTINGS) == after
    assert current == before


@pytest.mark.parametrize(
    ("operations", "error"),
    [
        ([("segment.bytes", SET, "5"), ("segment.bytes", DELETE, None)], AlterRequestError),
        ([("segment.bytes", SET, None)], AlterRequestError),
        ([("segment.bytes", 4, "5")], AlterRequestError),
        ([("segment.bytes", -1, "5")], AlterRequestError),
        ([("segment.bytes", APPEND, "5")], ConfigError),
        ([("segment.bytes", SUBTRACT, "5")], ConfigError),
        ([("unheard.of", APPEND, "5")], ConfigError),
    ],
)
def test_alter_refuses(operations, error):
    with pytest.raises(ConfigError) as caught:
        alter({}, operations, TOPIC_SETTINGS)
    assert type(caught.value) is error


def test_replace():
    assert replace([("a", "1"), ("b", "2")]) == {"a": "1", "b": "2"}
    for bad in ([("a", None)], [("a", "1"), ("a", "2")]):
        with pytest.raises(AlterRequestError):
            replace(bad)


def test_the_settings_of_a_topic_are_checked_with_the_brokers_defaults():
    config = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "100"})
    assert config.log_config({"min.compaction.lag.ms": "99"}).min_compaction_lag_ms == 99
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms"):
        config.log_config({"min.compaction.lag.ms": "101"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("message.max.bytes", "5000"),
        ("log.cleaner.threads", "2"),
        ("num.network.threads", "4"),
        ("max.connections", "5"),
        ("leader.replication.throttled.rate", "0"),
        ("a.plug-ins.own", "x"),
        ("listener.name.plaintext.max.connections", "5"),
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_dynamic_settings_may_change(name, text, per_broker):
    DynamicBrokerConfig(BrokerConfig({})).check({name: text}, per_broker=per_broker)


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("num.partitions", "5", "cannot be changed while the broker runs"),
        ("broker.id", "5", "cannot be changed while the broker runs"),
        ("listeners", "PLAINTEXT://:1", "yet"),
        ("message.max.bytes", "-1", "at least 0"),
        ("message.max.bytes", "many", "whole number"),
        ("leader.replication.throttled.rate", "-1", "at least 0"),
        ("log.retention.ms", "0", "at least 1"),
        ("ssl.keystore.location", "/k", "for one listener"),
        ("listener.name.a.ssl.key.password", "hush", "only if password.encoder.secret is set"),
        ("num.network.threads", "7", "half to double"),
        ("num.io.threads", "3", "half to double"),
        ("log.cleaner.min.compaction.lag.ms", "9223372036854775807", None),
        ("max.connections.per.ip", "0", "may be 0 only if"),
    ],
)
def test_static_settings_may_not_change(name, text, rule):
    dynamic = DynamicBrokerConfig(BrokerConfig({}))
    if rule is None:
        dynamic.check({name: text}, per_broker=True)
        return
    with pytest.raises(ConfigError, match=rule) as caught:
        dynamic.check({name: text}, per_broker=True)
    assert caught.value.name == name
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.a.ssl.keystore.location", "/k"),
        ("principal.builder.class", "x"),
    ],
)
def test_per_broker_settings_may_not_change_for_all_brokers(name, text):
    with pytest.raises(ConfigError, match="not for all"):
        DynamicBrokerConfig(BrokerConfig({})).check({name: text}, per_broker=False)


def test_check_sees_both_layers():
    dynamic = DynamicBrokerConfig(BrokerConfig({}))
    dynamic.apply(cluster_wide={"max.connections.per.ip.overrides": "127.0.0.1:5"})
    dynamic.check({"max.connections.per.ip": "0"}, per_broker=True)


def test_apply_changes_the_config_in_place_and_prefers_the_brokers_own_setting():
    config = BrokerConfig({"message.max.bytes": "3", "num.io.threads": "2"})
    warnings = list(config.warnings)
    dynamic = DynamicBrokerConfig(config)
    assert dynamic.apply(cluster_wide={"message.max.bytes": "4", "log.segment.bytes": "99"}) == (
        frozenset({"message.max.bytes", "log.segment.bytes"}),
        [],
    )
    assert (config.message_max_bytes, config.log_config().max_message_bytes) == (4, 4)
    assert dynamic.apply(per_broker={"message.max.bytes": "5"}) == (frozenset({"message.max.bytes"}), [])
    assert config.message_max_bytes == 5
    assert dynamic.apply(per_broker={}) == (frozenset({"message.max.bytes"}), [])
    assert config.message_max_bytes == 4
    assert dynamic.apply(cluster_wide={})[0] == {"message.max.bytes", "log.segment.bytes"}
    assert (config.message_max_bytes, config.log_segment_bytes) == (3, 1073741824)
    assert dynamic.apply(per_broker={}, cluster_wide={}) == (frozenset(), [])
    assert config.warnings == warnings != []


def test_a_generated_id_is_kept():
    config = BrokerConfig({})
    dynamic = DynamicBrokerConfig(config)
    config.assign_broker_id(1001)
    dynamic.apply(per_broker={"message.max.bytes": "5"})
    assert (config.broker_id, config.message_max_bytes) == (1001, 5)


def test_apply_ignores_invalid_settings():
    config = BrokerConfig({})
    dynamic = DynamicBrokerConfig(config)
    changed, warnings = dynamic.apply(
        cluster_wide={"num.partitions": "5", "message.max.bytes": "4", "log.segment.bytes": "1"}
    )
    assert changed == {"message.max.bytes"}
    assert len(warnings) == 2
    assert config.num_partitions == 1


def test_apply_changes_nothing_if_the_settings_contradict_each_other():
    config = BrokerConfig({})
    dynamic = DynamicBrokerConfig(config)
    dynamic.apply(cluster_wide={"message.max.bytes": "4"})
    changed, warnings = dynamic.apply(cluster_wide={"log.retention.ms": "0", "message.max.bytes": "5"})
    assert changed == frozenset()
    assert "log.retention.ms=0" in warnings[0]
    assert config.message_max_bytes == 4
    assert dynamic.cluster_wide == {"message.max.bytes": "4"}


def one(described):
    assert len(described) == 1
    return described[0]


def test_synonyms_are_listed_by_precedence():
    dynamic = DynamicBrokerConfig(BrokerConfig({"message.max.bytes": "3"}))
    dynamic.apply(per_broker={"message.max.bytes": "5"}, cluster_wide={"message.max.bytes": "4"})
    described = one(dynamic.describe_topic({"max.message.bytes": "6"}, ["max.message.bytes"]))
    assert (described.value, described.source) == ("6", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert not described.is_default
    expected = [
        ("message.max.bytes", "5", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("message.max.bytes", "4", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("message.max.bytes", "3", ConfigSource.STATIC_BROKER_CONFIG),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT_CONFIG),
    ]
    assert described.synonyms == [("max.message.bytes", "6", ConfigSource.DYNAMIC_TOPIC_CONFIG), *expected]
    described = one(dynamic.describe_broker({"message.max.bytes"}))
    assert (described.value, described.synonyms) == ("5", expected)
    described = one(dynamic.describe_cluster_wide())
    assert (described.value, described.synonyms) == ("4", expected[1:2])
    assert described.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def test_synonyms_in_other_units_come_after_the_name_itself():
    dynamic = DynamicBrokerConfig(BrokerConfig({"log.roll.hours": "5", "log.roll.ms": "7"}))
    described = one(dynamic.describe_topic({}, ["segment.ms"]))
    assert described.value == "7"
    assert described.synonyms == [
        ("log.roll.ms", "7", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.roll.hours", "5", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.roll.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]
    dynamic = DynamicBrokerConfig(BrokerConfig({"log.roll.hours": "5"}))
    described = one(dynamic.describe_topic({}, ["segment.ms"]))
    assert (described.value, described.synonyms) == ("18000000", [])
    assert described.is_default


def test_passwords_and_unknown_settings_are_not_shown():
    config = BrokerConfig({"ssl.key.password": "hush", "listener.name.a.ssl.key.password": "hush"})
    dynamic = DynamicBrokerConfig(config)
    dynamic.apply(per_broker={"a.plug-ins.own": "hush"})
    for name in ("ssl.key.password", "listener.name.a.ssl.key.password", "a.plug-ins.own"):
        described = one(dynamic.describe_broker([name]))
        assert described.sensitive
        assert described.value is None
        assert "hush" not in repr(described.synonyms)
        assert described.synonyms[0][0] == name


def test_unknown_names_are_omitted_and_none_means_all():
    dynamic = DynamicBrokerConfig(BrokerConfig({}))
    assert dynamic.describe_broker(["unheard.of"]) == []
    assert dynamic.describe_topic({}, ["unheard.of"]) == []
    assert [d.name for d in dynamic.describe_topic({}, [])] == list(TOPIC_SETTINGS)
    assert {d.name for d in dynamic.describe_broker()} == {n for n, s in BROKER_SETTINGS.items() if not s.internal}


def test_the_documentation_is_from_the_settings_table():
    described = one(DynamicBrokerConfig(BrokerConfig({})).describe_broker(["num.partitions"]))
    assert described.documentation == BROKER_SETTINGS["num.partitions"].doc


def recorded_dynamic():
    """The rows of dynamic-configs.tsv: name, form, and what Kafka answers.

    Left out are settings of ZooKeeper with the prefix of a listener, which has none: Kafka ignores them.
    """
    with (REFERENCE / "security" / "dynamic-configs.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            for form in FORMS:
                if not (row["name"].startswith("zookeeper.") and form.endswith("prefix")):
                    yield row["name"], form, row[form]


FORMS = {
    "per_broker": ("", True),
    "cluster_default": ("", False),
    "per_broker_with_listener_prefix": ("listener.name.ssl.", True),
    "cluster_default_with_listener_prefix": ("listener.name.ssl.", False),
}
VALUES = {"BOOLEAN": "true", "INT": "4096"}
WITHOUT_PREFIX = ("per_broker", "cluster_default")
OURS = {
    # the listeners of a broker that runs stay
    **{(name, form): "not dynamic (42)" for name in ("listeners", "listener.security.protocol.map") for form in FORMS},
    # Kafka accepts a change, which has no effect (dynamic-effect.jsonl)
    **{
        (name, form): "not dynamic (42)"
        for name in ("super.users", "allow.everyone.if.no.acl.found")
        for form in WITHOUT_PREFIX
    },
    # classes of Java cannot be used
    **{
        (name, "per_broker_with_listener_prefix"): "refused"
        for name in (
            "client.quota.callback.class",
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "security.providers",
        )
    },
}
"""Where Ottla differs from Kafka on purpose."""


@pytest.mark.parametrize(("name", "form", "answer"), list(recorded_dynamic()))
def test_settings_may_change_where_kafka_allows_it(name, form, answer):
    prefix, per_broker = FORMS[form]
    setting = BROKER_SETTINGS[name]
    value = setting.default_text or VALUES.get(setting.type.name, "x")
    if name == "max.connections.per.ip.overrides":
        value = "127.0.0.1:5"
    dynamic = DynamicBrokerConfig(BrokerConfig({"password.encoder.secret": "s"}))
    answer = OURS.get((name, form), answer)
    if answer in ("ok", "error 42"):  # which was the listener's: it had a key store of another kind
        dynamic.check({prefix + name: value}, per_broker=per_broker)
        return
    words = {
        "not dynamic (42)": "cannot be changed while",
        "refused: per broker only (42)": "not for all",
        "refused": rf"{name}=x: .*(not supported|cannot be used)",
    }
    with pytest.raises(ConfigError, match=words.get(answer, "only be changed for one listener")):
        dynamic.check({prefix + name: value}, per_broker=per_broker)

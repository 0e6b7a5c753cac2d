"""The tables of broker settings against Kafka's own list, and the document made from them."""

import typing
from pathlib import Path

import pytest

from broker.settings import docs as config_docs
from broker.settings.catalog import ACTED_ON, BROKER_SETTINGS, KAFKA_SETTINGS, TOPIC_ACTED_ON
from broker.settings.config import BrokerConfig
from broker.settings.refused import refused_settings
from broker.settings.tables.ottla import OTTLA_SETTINGS
from protocol.classic_names import CLASSIC_NAMES, Reader, advice
from registry.zookeeper.settings import SETTING_NAMES
from storage.log.config import TOPIC_SETTINGS, LogConfig
from support.reference import REFERENCE


def reference_rows():
    lines = (REFERENCE / "tables" / "broker-configs.tsv").read_text().splitlines()
    heading = lines[0].split("\t")
    return [dict(zip(heading, line.split("\t") + [""] * 9, strict=False)) for line in lines[1:]]


def test_names_and_their_order_are_those_of_kafka():
    assert list(KAFKA_SETTINGS) == sorted(row["name"] for row in reference_rows())
    assert list(BROKER_SETTINGS) == [*KAFKA_SETTINGS, *OTTLA_SETTINGS]


@pytest.mark.parametrize("row", reference_rows(), ids=lambda row: row["name"])
def test_each_row_matches_kafka(row):
    setting = KAFKA_SETTINGS[row["name"]]
    assert setting.type.name == row["type"]
    default = row["default"].removeprefix("class ")
    assert setting.default_text == (None if default == "null" else default)
    assert ("" if setting.validator is None else setting.validator.text) == row["valid_values"]
    assert setting.importance == row["importance"]
    assert setting.update_mode == row["update_mode"]
    assert setting.internal == (row["internal"] == "true")
    assert setting.is_sensitive == (row["sensitive"] == "true")
    assert setting.doc


@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_each_default_satisfies_its_rule(name):
    setting = BROKER_SETTINGS[name]
    if setting.default_text is not None:
        assert setting.text(setting.parse(setting.default_text)) == setting.default_text


def test_each_setting_with_an_effect_is_a_typed_attribute():
    declared = typing.get_type_hints(BrokerConfig)
    through_others = {
        "inter.broker.listener.name",
        "log.dir",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "node.id",
    }
    of_listeners = {name for name in ACTED_ON if name.startswith("ssl.")}  # see BrokerConfig.of_listener
    for name in ACTED_ON - through_others - of_listeners - set(SETTING_NAMES):
        assert BROKER_SETTINGS[name].attribute in declared, name


def test_attributes_have_their_declared_types():
    config = BrokerConfig({}, has_file=False)
    for attribute, declared in typing.get_type_hints(BrokerConfig).items():
        origins = [typing.get_origin(part) or part for part in typing.get_args(declared)]
        kinds = tuple(origins) if type(None) in origins else typing.get_origin(declared) or declared
        assert isinstance(getattr(config, attribute), kinds), attribute


def test_topic_defaults_come_from_existing_broker_settings():
    for name, setting in TOPIC_SETTINGS.items():
        for server in setting.server:
            assert server in KAFKA_SETTINGS
        if setting.server:
            assert KAFKA_SETTINGS[setting.server[0]].acts == setting.acts, name
    of_topics_only = {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"}
    assert {name for name in TOPIC_ACTED_ON if not TOPIC_SETTINGS[name].server} == of_topics_only


def test_without_settings_topics_have_kafkas_defaults():
    assert BrokerConfig({}).log_config() == LogConfig()


def test_classic_names_are_not_current_names():
    for name in CLASSIC_NAMES.keys() & BROKER_SETTINGS.keys():
        assert advice(name, Reader.BROKER) is None, name
    for name in CLASSIC_NAMES.keys() & TOPIC_SETTINGS.keys():
        assert advice(name, Reader.TOPIC) is None, name


def test_refused_settings_exist():
    assert "zookeeper.ssl.crl.enable" in dict(refused_settings(BROKER_SETTINGS))
    assert "process.roles" in dict(refused_settings(BROKER_SETTINGS))


def test_the_document_is_up_to_date(capsys):
    config_docs.main()
    path = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
    assert path.read_text() == capsys.readouterr().out, "run: python -m broker.settings.docs > docs/configuration.md"


def test_the_document_names_every_setting():
    text = "\n".join(config_docs.document())
    for name in (*BROKER_SETTINGS, *TOPIC_SETTINGS, *CLASSIC_NAMES):
        assert f"`{name}`" in text

"""LogConfig: the table against Kafka's, the typed view, and the rules among a topic's settings."""

import typing

import pytest

from storage.log.config import LONG_MAX, TOPIC_SETTINGS, LogConfig
from storage.setting import ConfigError
from support.reference import REFERENCE


def reference_rows():
    lines = (REFERENCE / "tables" / "topic-configs.tsv").read_text().splitlines()
    heading = lines[0].split("\t")
    return [dict(zip(heading, line.split("\t"), strict=True)) for line in lines[1:]]


def test_names_and_their_order_are_those_of_kafka():
    assert list(TOPIC_SETTINGS) == [row["name"] for row in reference_rows()]


@pytest.mark.parametrize("row", reference_rows(), ids=lambda row: row["name"])
def test_each_row_matches_kafka(row):
    setting = TOPIC_SETTINGS[row["name"]]
    assert setting.type.name == row["type"]
    assert setting.default_text == row["default"]
    assert ("" if setting.validator is None else setting.validator.text) == row["valid_values"]
    assert setting.importance == row["importance"]
    assert ",".join(setting.server) == row["server_default_from"]
    assert setting.doc


@pytest.mark.parametrize("name", TOPIC_SETTINGS)
def test_attribute_has_the_default_and_its_declared_type(name):
    setting = TOPIC_SETTINGS[name]
    declared = typing.get_type_hints(LogConfig)[setting.attribute]
    value = getattr(LogConfig(), setting.attribute)
    assert isinstance(value, typing.get_origin(declared) or declared)
    assert setting.parse(setting.text(setting.default)) == setting.default
    if name != "cleanup.policy":
        assert value == setting.default


def test_overrides_are_parsed_and_win_over_defaults():
    config = LogConfig(
        {"segment.bytes": "4096", "cleanup.policy": "compact, delete"}, {"segment.bytes": 99, "flush.ms": 7}
    )
    assert config.segment_bytes == 4096
    assert config.flush_ms == 7
    assert config.cleanup_policy == frozenset({"compact", "delete"})
    assert config.compacts
    assert config.deletes
    assert config.value("segment.bytes") == 4096
    assert config.value("retention.ms") == 604800000
    assert config.overrides == {"segment.bytes": "4096", "cleanup.policy": "compact, delete"}


def test_with_overrides_makes_a_changed_copy():
    config = LogConfig({"segment.bytes": "4096"}, {"flush.ms": 7})
    changed = config.with_overrides(retention_ms=-1, cleanup_policy={"compact"}, preallocate=True)
    assert (changed.retention_ms, changed.cleanup_policy, changed.preallocate) == (
        -1,
        frozenset({"compact"}),
        True,
    )
    assert (changed.segment_bytes, changed.flush_ms) == (4096, 7)
    assert config.retention_ms == 604800000
    assert changed != config
    assert config == LogConfig({}, {"flush.ms": 7, "segment.bytes": 4096})
    assert hash(config) == hash(LogConfig({}, {"flush.ms": 7, "segment.bytes": 4096}))


def test_unknown_name_is_refused():
    with pytest.raises(ConfigError, match=r"segment\.byte: no topic setting has this name"):
        LogConfig({"segment.byte": "1"})


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"segment.bytes": "13"}, "segment.bytes"),
        ({"cleanup.policy": "remove"}, "cleanup.policy"),
        ({"min.cleanable.dirty.ratio": "1.1"}, "min.cleanable.dirty.ratio"),
        ({"compression.type": "brotli"}, "compression.type"),
        ({"message.timestamp.type": "createtime"}, "message.timestamp.type"),
        ({"message.format.version": "5.0"}, "message.format.version"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "min.compaction.lag.ms"),
        ({"remote.storage.enable": "true"}, "remote.storage.enable"),
        ({"remote.log.copy.disable": "true"}, "remote.log.copy.disable"),
        ({"remote.log.delete.on.disable": "true"}, "remote.log.delete.on.disable"),
    ],
)
def test_bad_values_are_refused(overrides, name):
    with pytest.raises(ConfigError) as caught:
        LogConfig(overrides)
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name}={overrides[name]}: ")


@pytest.mark.parametrize("version", ["3.0-IV1", "0.8.2", "0.10.0", "2.8", "2.8.1", "3.9", "3.9.0"])
def test_message_format_versions(version):
    LogConfig({"message.format.version": version})


def test_the_old_timestamp_limit_is_the_default_of_the_new_ones():
    config = LogConfig({"message.timestamp.difference.max.ms": "5"})
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (5, 5)
    config = LogConfig({"message.timestamp.difference.max.ms": "5", "message.timestamp.after.max.ms": "9"})
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (5, 9)
    assert LogConfig().message_timestamp_before_max_ms == LONG_MAX


def test_a_compacted_topic_rolls_in_time_for_compaction():
    assert LogConfig({"segment.ms": "100", "max.compaction.lag.ms": "10"}).max_segment_ms == 100
    compacted = {"segment.ms": "100", "max.compaction.lag.ms": "10", "cleanup.policy": "compact"}
    assert LogConfig(compacted).max_segment_ms == 10

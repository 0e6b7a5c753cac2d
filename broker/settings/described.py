"""Describe settings for DescribeConfigs: one `DescribedConfig` for each setting, with the source of its value.

Synonyms (KIP-226) are all sources of a value, in order of precedence: the topic's own setting, a dynamic
setting of this broker, a dynamic setting of all brokers, the properties file, the default; each with all
names of the same meaning (`log.roll.ms` before `log.roll.hours`). As in Kafka, the synonyms before the first
one with the described name itself are dropped, and the source of the value is that of the first remaining
synonym. So a value that comes from a synonym in other units counts as a default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, Self

from broker.settings.catalog import BROKER_SETTINGS, DYNAMIC_QUOTAS
from broker.settings.config import SYNONYMS, BrokerConfig
from broker.settings.listener_settings import base_name, is_prefixed
from storage.log.config import TOPIC_SETTINGS
from storage.setting import PASSWORD, READ_ONLY, Setting


class ConfigSource(IntEnum):
    """The sources of values, with the numbers of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


Synonym = tuple[str, str | None, ConfigSource]
"""Name, value (None for a password) and source of a synonym."""


class DescribedConfig:
    """One setting in an answer to DescribeConfigs; `type` is the number of its type, 0 for unknown."""

    __slots__ = ("documentation", "name", "read_only", "sensitive", "source", "synonyms", "type", "value")

    def __init__(
        self,
        name: str,
        value: str | None,
        setting: Setting | None,
        synonyms: list[Synonym],
        *,
        read_only: bool,
    ) -> None:
        self.name = name
        self.sensitive = is_sensitive(setting)
        self.value = None if self.sensitive else value
        self.read_only = read_only
        self.synonyms = synonyms
        self.source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
        self.type = 0 if setting is None else int(setting.type)
        self.documentation = None if setting is None else setting.doc

    @classmethod
    def of_logger(cls, name: str, level: str) -> Self:
        """Return the level of a logger (KIP-412): never sensitive, without type and synonyms, as in Kafka."""
        one = cls(name, level, None, [], read_only=False)
        one.sensitive, one.value, one.source = False, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
        return one

    def __repr__(self) -> str:
        return f"DescribedConfig({self.name}={self.value}, {self.source.name})"

    @property
    def is_default(self) -> bool:
        """Whether the value is a default; version 0 of the answer has this instead of a source."""
        return self.source is ConfigSource.DEFAULT_CONFIG


ONE_ID: Final = frozenset({"broker.id", "node.id"})
"""Two names of one setting."""


class ConfigLayers:
    """All sources of broker settings, as text."""

    __slots__ = ("_static", "cluster_wide", "config", "per_broker")

    def __init__(self, config: BrokerConfig, per_broker: Mapping[str, str], cluster_wide: Mapping[str, str]) -> None:
        self.config = config
        self._static = dict(config.static)
        if not ONE_ID.isdisjoint(config.static):  # as in Kafka, both names then count as set
            self._static |= {name: str(config.broker_id) for name in ONE_ID}
        self.per_broker = per_broker
        self.cluster_wide = cluster_wide

    def describe_broker(self, names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Return all settings of this broker sorted by name, or those in `names` that exist."""
        config = self.config
        described: list[DescribedConfig] = []
        others = {name for layer in (self._static, self.cluster_wide, self.per_broker) for name in layer}
        for name in sorted(others | BROKER_SETTINGS.keys()):
            if names and name not in names:
                continue
            setting = setting_of(name)
            if name in BROKER_SETTINGS:
                known = BROKER_SETTINGS[name]
                if known.internal and name not in others:
                    continue
                value = known.text(config.values[name])
            else:
                value = next(
                    layer[name] for layer in (self.per_broker, self.cluster_wide, self._static) if name in layer
                )
            synonyms = self.synonyms(name, is_sensitive(setting))
            described.append(DescribedConfig(name, value, setting, synonyms, read_only=is_read_only(name)))
        return described

    def describe_cluster_wide(self, names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Return the dynamic settings of all brokers (the resource with the empty name)."""
        described: list[DescribedConfig] = []
        for name, value in sorted(self.cluster_wide.items()):
            if names and name not in names:
                continue
            setting = setting_of(name)
            synonyms = [
                synonym
                for synonym in self.synonyms(name, is_sensitive(setting))
                if synonym[2] is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            ]
            described.append(DescribedConfig(name, value, setting, synonyms, read_only=is_read_only(name)))
        return described

    def describe_topic(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[DescribedConfig]:
        """Return all settings of a topic with these overrides, sorted by name, or those in `names`."""
        topic = self.config.log_config(overrides)
        described: list[DescribedConfig] = []
        for name, setting in TOPIC_SETTINGS.items():
            if names and name not in names:
                continue
            value = setting.text(topic.value(name))
            synonyms: list[Synonym] = []
            if name in overrides:
                synonyms.append((name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
            if setting.server:
                synonyms += self.synonyms(setting.server[0], sensitive=False)
            described.append(DescribedConfig(name, value, setting, synonyms, read_only=False))
        return described

    def synonyms(self, name: str, sensitive: bool) -> list[Synonym]:
        """Return the synonyms of a broker setting, in order of precedence."""
        layers = (
            (self.per_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.cluster_wide, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._static, ConfigSource.STATIC_BROKER_CONFIG),
            (self.config.defaults, ConfigSource.DEFAULT_CONFIG),
        )
        found: list[Synonym] = [
            (other, None if sensitive else layer[other], source)
            for layer, source in layers
            for other in same_meaning(name)
            if other in layer
        ]
        own = next((index for index, synonym in enumerate(found) if synonym[0] == name), len(found))
        return found[own:]


def same_meaning(name: str) -> tuple[str, ...]:
    """Return the names with the same meaning as a broker setting, in order of precedence."""
    if name == "log.flush.interval.ms":
        return name, "log.flush.scheduler.interval.ms"
    if is_prefixed(name):
        return name, base_name(name)
    return next((names for names in SYNONYMS if name in names), (name,))


def setting_of(name: str) -> Setting | None:
    """Return the row of a broker setting, also for a name with a listener's prefix; None for an unknown name."""
    base = base_name(name)
    return BROKER_SETTINGS.get(base) or DYNAMIC_QUOTAS.get(base)


def is_sensitive(setting: Setting | None) -> bool:
    """Return whether the value must be hidden: that of a password and, as in Kafka, of an unknown setting."""
    return setting is None or setting.type is PASSWORD


def is_read_only(name: str) -> bool:
    """Return whether a setting cannot be changed while the broker runs; unknown and prefixed names are read-only."""
    setting = BROKER_SETTINGS.get(name)  # without DYNAMIC_QUOTAS: Kafka also describes them as read-only
    return setting is None or setting.update_mode == READ_ONLY

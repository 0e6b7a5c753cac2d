"""Settings that change while the broker runs: of topics, of this broker and of all brokers.

This module is pure logic on text. The registry stores the settings (`/config/topics/…`, `/config/brokers/…`).
Handlers call `alter` to apply the operations of a request to the stored settings, check the result
(`BrokerConfig.log_config`, `DynamicBrokerConfig.check`) and write it. Every broker then sees the change and
calls `apply`.

Kafka's codes for the errors: INVALID_REQUEST for AlterRequestError, and for any ConfigError of
`DynamicBrokerConfig.check`; INVALID_CONFIG for any other ConfigError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum

from broker.settings.config import BrokerConfig
from broker.settings.described import ConfigLayers, DescribedConfig, setting_of
from broker.settings.listener_settings import base_name, is_of_console, is_prefixed
from broker.settings.names import refuse_classic
from broker.settings.refused import refusal
from storage.log.config import TOPIC_SETTINGS, topic_setting
from storage.setting import HIDDEN, LIST, PER_BROKER, READ_ONLY, ConfigError, Setting

CLUSTER_WIDE_PER_LISTENER = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""The settings that may be set for all brokers even with a listener's prefix."""

FIXED_LISTENERS = ("advertised.listeners", "listener.security.protocol.map", "listeners")
"""Kafka can change listeners while it runs; Ottla cannot yet, and refuses such changes."""

ONLY_PER_LISTENER = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The settings that may be changed only with a listener's prefix."""

THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""Numbers that one change may at most double or halve."""


class AlterRequestError(ConfigError):
    """The request for changes itself is invalid: INVALID_REQUEST."""


class AlterOperation(IntEnum):
    """The operations of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Operation = tuple[str, int, str | None]
"""Name, operation and value (None only for DELETE) of one change."""


def alter(
    current: Mapping[str, str],
    operations: Iterable[Operation],
    settings: Mapping[str, Setting],
    defaults: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the settings after the operations; only the operations are validated, not the values.

    settings: the table that says which settings are lists. defaults: the initial values of lists that are not
    set; without one, the default in the table is used. Raises AlterRequestError for a repeated name, an unknown
    operation and a missing value; ConfigError for a list operation on a setting that is not a list.
    """
    changed = dict(current)
    seen: set[str] = set()
    for name, number, value in operations:
        if name in seen:
            raise AlterRequestError(name, None, "must be in the request only once")
        seen.add(name)
        if not 0 <= number <= AlterOperation.SUBTRACT:
            raise AlterRequestError(name, None, f"there is no operation {number}")
        if number == AlterOperation.DELETE:
            changed.pop(name, None)
        elif value is None:
            raise AlterRequestError(name, None, "needs a value")
        elif number == AlterOperation.SET:
            changed[name] = value
        else:
            elements = _list_elements(name, changed, settings, defaults or {})
            if number == AlterOperation.APPEND:
                elements += [element for element in value.split(",") if element not in elements]
            else:
                for element in value.split(","):
                    if element in elements:
                        elements.remove(element)
            changed[name] = ",".join(elements)
    return changed


def replace(values: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return the settings after AlterConfigs: exactly those that the request names. Raises AlterRequestError."""
    return alter({}, ((name, AlterOperation.SET, value) for name, value in values), {})


class DynamicBrokerConfig:
    """The dynamic settings of this broker and of all brokers; they change its BrokerConfig in place."""

    __slots__ = ("_base", "check_listeners", "cluster_wide", "config", "per_broker")

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.check_listeners: Callable[[BrokerConfig], None] = lambda after: None
        """Raises ConfigError if the listeners cannot use these settings."""
        self._base = config.with_dynamic()
        self.per_broker: dict[str, str] = {}
        self.cluster_wide: dict[str, str] = {}

    def check(self, settings: Mapping[str, str], *, per_broker: bool) -> None:
        """Raise ConfigError if these are not valid dynamic settings of this broker (or of all brokers)."""
        for name, text in settings.items():
            _check_one(name, text, per_broker=per_broker)
        layers = (self.cluster_wide, settings) if per_broker else (settings, self.per_broker)
        after = self._base.with_dynamic(*layers)
        self._check_passwords(settings)
        self.check_listeners(after)
        for name in THREAD_COUNTS:
            _check_threads(name, self.config.values[name], after.values[name])

    def _check_passwords(self, settings: Mapping[str, str]) -> None:
        """Passwords are written encrypted, or not at all."""
        if self.config.password_encoder_secret:
            return
        for name in settings:
            setting = setting_of(name)
            if setting is not None and setting.is_sensitive:
                raise ConfigError(name, HIDDEN, "can be changed only if password.encoder.secret is set")

    def apply(
        self,
        *,
        per_broker: Mapping[str, str] | None = None,
        cluster_wide: Mapping[str, str] | None = None,
    ) -> tuple[frozenset[str], list[str]]:
        """Apply the settings of the registry (None: unchanged); return the names of changed settings, and warnings.

        An invalid setting (another broker may have written it) is left out with a warning. If the valid settings
        contradict each other, nothing changes.
        """
        warnings: list[str] = []
        new_per_broker, new_cluster_wide = self.per_broker, self.cluster_wide
        if per_broker is not None:
            new_per_broker = _only_valid(per_broker, warnings, per_broker=True)
        if cluster_wide is not None:
            new_cluster_wide = _only_valid(cluster_wide, warnings, per_broker=False)
        try:
            after = self._base.with_dynamic(new_cluster_wide, new_per_broker)
        except ConfigError as error:
            warnings.append(f"dynamic settings are not applied: {error}")
            return frozenset(), warnings
        self.per_broker, self.cluster_wide = new_per_broker, new_cluster_wide
        return self.config.become(after), warnings

    def describe_broker(self, names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Describe the settings of this broker, or only those in `names` (None or empty: all)."""
        return self._layers().describe_broker(names)

    def describe_cluster_wide(self, names: Collection[str] | None = None) -> list[DescribedConfig]:
        """Describe the dynamic settings of all brokers, the resource with the empty name."""
        return self._layers().describe_cluster_wide(names)

    def describe_topic(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[DescribedConfig]:
        """Describe the settings of a topic with these overrides."""
        return self._layers().describe_topic(overrides, names)

    def _layers(self) -> ConfigLayers:
        return ConfigLayers(self.config, self.per_broker, self.cluster_wide)


def _check_one(name: str, text: str, *, per_broker: bool) -> None:
    """Raise ConfigError if a dynamic setting is invalid by itself."""
    setting = setting_of(name)
    if setting is None:
        if (classic := refuse_classic(name, text)) is not None:
            raise classic
        return  # Kafka also stores settings of plug-ins, whose names are unknown
    rule = _never(setting, prefixed=is_prefixed(name), per_broker=per_broker)
    if is_of_console(name) and base_name(name) not in ONLY_PER_LISTENER:
        rule = "cannot be changed while the broker runs"
    if rule is None:
        try:
            rule = refusal(setting, setting.parse(text))
        except ConfigError as error:
            rule = error.rule
    if rule is not None:
        raise ConfigError(name, HIDDEN if setting.is_sensitive else text, rule)


def _never(setting: Setting, *, prefixed: bool, per_broker: bool) -> str | None:
    """Return why a setting may not be changed to any value; None if it may be changed."""
    name = setting.name
    if setting.update_mode == READ_ONLY and not prefixed:
        return "cannot be changed while the broker runs"
    if name in FIXED_LISTENERS:
        return "cannot be changed while the broker runs yet"
    if name in ONLY_PER_LISTENER and not prefixed:
        return f"can only be changed for one listener: listener.name.<name>.{name}"
    for_all = per_broker or name in CLUSTER_WIDE_PER_LISTENER
    if (setting.update_mode == PER_BROKER or prefixed) and not for_all:
        return "can only be changed for one broker, not for all"
    return None


def _check_threads(name: str, before: object, after: object) -> None:
    if not isinstance(before, int) or not isinstance(after, int) or before == after:
        return
    if after < 1:
        raise ConfigError(name, after, "must be at least 1")
    if after < before // 2 or after > before * 2:
        raise ConfigError(name, after, f"must be from half to double the current value ({before})")


def _only_valid(settings: Mapping[str, str], warnings: list[str], *, per_broker: bool) -> dict[str, str]:
    valid: dict[str, str] = {}
    for name, text in settings.items():
        try:
            _check_one(name, text, per_broker=per_broker)
        except ConfigError as error:
            warnings.append(f"dynamic setting is not applied: {error}")
        else:
            valid[name] = text
    return valid


def _list_elements(
    name: str, current: Mapping[str, str], settings: Mapping[str, Setting], defaults: Mapping[str, str]
) -> list[str]:
    setting = settings.get(name)
    if setting is None:
        if settings is TOPIC_SETTINGS:
            topic_setting(name)  # raises, with the reason
        raise refuse_classic(name, None) or ConfigError(name, None, "no setting has this name")
    if setting.type is not LIST:
        raise ConfigError(name, None, "is not a list: it cannot be appended to or subtracted from")
    text = current.get(name, defaults.get(name, setting.default_text or ""))
    return text.split(",") if text else []

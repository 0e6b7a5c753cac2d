"""BrokerConfig: the settings of one broker, parsed, checked and typed.

The sources of a value, in order of precedence, are: a dynamic setting of this broker, a dynamic setting of
all brokers, `--set`, the environment, the properties file, the default. Defaults are Kafka's, except those that
do not suit a single broker: without `zookeeper.connect` the internal topics have one replica and new
groups do not wait, and without a properties file the broker has the id 0, listens on 127.0.0.1:9092 and
stores its data in the caller's directory.

Every setting that has an effect is a typed attribute (`TypedSettings`), named after the setting in snake case;
`value(name)` returns the others. An instance changes only through `DynamicBrokerConfig`, in place, so that all users of
the instance see the new values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.network.listener import (
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    check_ports,
    parse_listeners,
    parse_protocol_map,
)
from broker.settings.catalog import BROKER_SETTINGS, DYNAMIC_QUOTAS
from broker.settings.checks import check_values, size_warnings
from broker.settings.derived import connections_per_ip, console_address, log_directories, times
from broker.settings.environment import EnvironmentSettings, environment_settings, jmx_port
from broker.settings.java_options import zookeeper_login
from broker.settings.listener_settings import ConsoleSettings, ListenerSettings, base_name, is_of_console, is_prefixed
from broker.settings.names import LISTENER_PREFIX, is_mistake, misspelled_for_listener, refuse_unknown, similar_name
from broker.settings.properties import read_properties
from broker.settings.refused import refusal
from broker.settings.typed import TypedSettings
from storage.log.config import TOPIC_SETTINGS, LogConfig
from storage.setting import HIDDEN, ConfigError, Setting, SettingValue

GROUP_DEFAULTS = {
    "group.consumer.migration.policy": "bidirectional",
    "group.coordinator.rebalance.protocols": "classic,consumer",
}
"""Defaults of every Ottla broker: Apache Kafka in ZooKeeper mode does not have the newer group protocol."""

SINGLE_BROKER_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Defaults of a broker with the embedded registry: it is the only broker of its cluster."""

NO_FILE_DEFAULTS = {"broker.id": "0", "listeners": "PLAINTEXT://127.0.0.1:9092"}
"""Defaults of a broker without a properties file: reachable from this machine only."""

SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Settings with the same meaning in different units, in order of precedence."""


class BrokerConfig(TypedSettings):
    """The settings of one broker. Raises ConfigError for the first error.

    static: the settings of the file and the overrides, as text. defaults: the text of every default that is set.
    values: every parsed setting. prefixed: those of one listener, by full name (see `of_listener`). warnings: lines to
    log once at the start.
    """

    static: dict[str, str]
    defaults: dict[str, str]
    values: dict[str, SettingValue]
    prefixed: dict[str, SettingValue]
    topic_defaults: dict[str, SettingValue]
    warnings: list[str]
    _assigned_id: int | None

    def __init__(
        self,
        static: Mapping[str, str],
        *,
        has_file: bool = True,
        data_dir: Path | None = None,
        files: Mapping[str, Path] | None = None,
    ) -> None:
        """files: the files of the settings that come from one, by name; only there may be unknown names."""
        self.warnings = []
        self._files = dict(files or {})
        self._assigned_id = None
        self.static = dict(static)
        self.defaults = {
            name: text for name, setting in BROKER_SETTINGS.items() if (text := setting.default_text) is not None
        }
        self.defaults.update(GROUP_DEFAULTS)
        if not self.static.get("zookeeper.connect", "").strip():
            self.defaults.update(SINGLE_BROKER_DEFAULTS)
        if not has_file:
            self.defaults.update(NO_FILE_DEFAULTS)
            if data_dir is not None:
                self.defaults["log.dir"] = str(data_dir)
        self.values = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
        self.prefixed = {}
        for name, text in self.defaults.items():
            if text != BROKER_SETTINGS[name].default_text:
                self.values[name] = BROKER_SETTINGS[name].parse(text)
        for name, text in self.static.items():
            self._take(name, text)
        self._one_id()
        self._resolve()
        self.warnings += size_warnings(self)
        self.warnings += self._without_listener()

    @classmethod
    def load(
        cls,
        path: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        data_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Return the settings of a properties file (None: no file) with `overrides`. Raises ConfigError.

        data_dir: the default of log.dir if there is no file. environment: the environment variables of the process,
        which override the file; JMX_PORT, which Kafka's start scripts read, sets ottla.jmx.port if nothing else does,
        and KAFKA_OPTS the login to ZooKeeper.
        """
        static = {} if path is None else read_properties(path)
        files = {} if path is None else dict.fromkeys(static, path)
        from_environment = EnvironmentSettings({}, {}, [])
        if environment is not None:
            from_environment = environment_settings(environment)
            static.update(from_environment.values)
        static.update(overrides or {})
        if environment is not None and "ottla.jmx.port" not in static:
            static.update(jmx_port(environment))
        if environment is not None and static.get("zookeeper.connect", "").strip():
            static.update(zookeeper_login(environment, static))
        files = {name: file for name, file in files.items() if name not in (overrides or {})}
        try:
            config = cls(static, has_file=path is not None, data_dir=data_dir, files=files)
        except ConfigError as error:
            variable = from_environment.variables.get(error.name)
            if variable is None or error.name in (overrides or {}):
                raise
            raise ConfigError(error.name, error.value, f"{error.rule} (the environment sets {variable})") from None
        config.warnings += from_environment.warnings
        return config

    def value(self, name: str) -> SettingValue:
        """Return the value of any setting by Kafka's name, without its synonyms in other units and derived defaults."""
        return self.values[name]

    def of_listener(self, name: str) -> ListenerSettings:
        """Return the settings as the listener of this name sees them."""
        return ListenerSettings(name, self.values, self.prefixed)

    def of_console(self) -> ConsoleSettings:
        """Return the settings of TLS and of tokens as the console sees them."""
        return ConsoleSettings(self.values, self.prefixed)

    def dynamic_quota(self, name: str) -> int:
        """Return a quota that exists only as a dynamic setting."""
        value = self.values.get(name, DYNAMIC_QUOTAS[name].default)
        assert isinstance(value, int)
        return value

    def log_config(self, overrides: Mapping[str, str] | None = None) -> LogConfig:
        """Return the settings of a topic with these overrides. Raises ConfigError if one is unknown or invalid."""
        return LogConfig(overrides, self.topic_defaults)

    def assign_broker_id(self, broker_id: int) -> None:
        """Set the generated id of a broker that has none in its settings."""
        self._assigned_id = self.broker_id = broker_id

    def with_dynamic(self, *layers: Mapping[str, str]) -> BrokerConfig:
        """Return a copy with dynamic settings; later layers override earlier ones. Raises ConfigError."""
        copy = object.__new__(BrokerConfig)
        copy.__dict__.update(self.__dict__)
        copy.warnings = []
        copy.values, copy.prefixed = dict(self.values), dict(self.prefixed)
        for layer in layers:
            for name, text in layer.items():
                setting = BROKER_SETTINGS.get(name) or DYNAMIC_QUOTAS.get(name)
                if setting is not None:
                    copy.values[name] = setting.parse(text)
                elif is_prefixed(name):
                    copy._parse_prefixed(name, text)
        copy._resolve()
        return copy

    def become(self, other: BrokerConfig) -> frozenset[str]:
        """Replace the values with those of `other`, in place, and return the names of the changed settings."""
        changed = frozenset(
            name
            for new, old in ((other.values, self.values), (other.prefixed, self.prefixed))
            for name in new.keys() | old.keys()
            if new.get(name) != old.get(name)
        )
        warnings, assigned = self.warnings, self._assigned_id
        self.__dict__.update(other.__dict__)
        self.warnings = warnings
        if assigned is not None:
            self.assign_broker_id(assigned)
        return changed

    def _take(self, name: str, text: str) -> None:
        """Parse one setting: refuse it if it is unknown, invalid or unsafe, and warn if it has no effect."""
        if is_prefixed(name):
            self._take_prefixed(name, text)
            return
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            self._unknown(name, text)
            return
        value = setting.parse(text)
        reason = refusal(setting, value)
        if reason is not None:
            raise setting.error(text, reason)
        if not setting.acts:
            shown = HIDDEN if setting.is_sensitive else text
            self.warnings.append(f"{name}={shown} has no effect in Ottla yet")
        self.values[name] = value

    def _take_prefixed(self, name: str, text: str) -> None:
        """Parse a setting of one listener; refuse a mistake; warn if the setting is unknown, or has no effect."""
        setting = self._parse_prefixed(name, text)
        if setting is not None and (reason := refusal(setting, setting.parse(text))) is not None:
            raise ConfigError(name, text, reason)
        if setting is None and (close := misspelled_for_listener(name, BROKER_SETTINGS)) is not None:
            raise ConfigError(name, HIDDEN, f"no setting of listeners has this name; the nearest is {close}")
        if setting is None or not setting.acts:
            self.warnings.append(f"{name} has no effect in Ottla yet")

    def _without_listener(self) -> Iterator[str]:
        """Yield a warning for each setting of a listener that does not exist, or that has no TLS or SASL to set.

        Kafka starts with them without a word, and its server.properties must start here, too.
        """
        protocols = {one.name: one.security_protocol for one in self.listeners}
        for name in self.static:
            if not name.startswith(LISTENER_PREFIX):
                continue
            listener = name.removeprefix(LISTENER_PREFIX).partition(".")[0].upper()
            protocol, base = protocols.get(listener), base_name(name)
            if protocol is None:
                yield f"{name} has no effect: {listener} is not among the listeners ({', '.join(sorted(protocols))})"
            elif base not in BROKER_SETTINGS or not BROKER_SETTINGS[base].acts:
                continue  # it has a warning of its own
            elif base.startswith("ssl.") and protocol not in TLS_PROTOCOLS:
                yield f"{name} has no effect: the listener {listener} is {protocol}, without TLS"
            elif base.startswith("sasl.") and protocol not in SASL_PROTOCOLS:
                yield f"{name} has no effect: the listener {listener} is {protocol}, without SASL"

    def _parse_prefixed(self, name: str, text: str) -> Setting | None:
        """Parse a setting of one listener. Return its row; None if it is unknown.

        The name of the listener may be in upper case. Kafka ignores such a setting; with ssl.client.auth, for example,
        the listener would then be open.
        """
        if not is_of_console(name):
            listener, dot, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
            name = f"{LISTENER_PREFIX}{listener.lower()}{dot}{rest}"
        setting = BROKER_SETTINGS.get(base_name(name))
        if setting is not None:
            try:
                self.prefixed[name] = setting.parse(text)
            except ConfigError as error:
                raise ConfigError(name, error.value, error.rule) from None
        return setting

    def _unknown(self, name: str, text: str) -> None:
        """Refuse an unknown name; warn if it is in a file, unless it is a mistake. The value may be a password."""
        if name not in self._files or is_mistake(name, BROKER_SETTINGS, TOPIC_SETTINGS):
            raise refuse_unknown(name, text, BROKER_SETTINGS, TOPIC_SETTINGS)
        close = similar_name(name, BROKER_SETTINGS)
        hint = "" if close is None else f"; the nearest is {close}"
        self.warnings.append(f"{self._files[name]}: no setting is named {name}: it has no effect{hint}")

    def _one_id(self) -> None:
        """Give broker.id and node.id, two names of the same setting, the same value."""
        if "node.id" in self.static and "broker.id" not in self.static:
            self.values["broker.id"] = self.values["node.id"]
        elif "node.id" not in self.static:
            self.values["node.id"] = self.values["broker.id"]

    def _resolve(self) -> None:
        """Set the attributes from the values, then those derived from several values, and check them together."""
        for name, setting in BROKER_SETTINGS.items():
            setattr(self, setting.attribute, self.values[name])
        for attribute, value in times(self.values).items():
            setattr(self, attribute, value)
        self._resolve_listeners()
        self.log_dirs = log_directories(self.values)
        self.max_connections_per_ip_overrides = connections_per_ip(self.values)
        self.ottla_console_listener, self.console_has_tls = console_address(self.values)
        check_values(self)
        if self._assigned_id is not None:
            self.broker_id = self._assigned_id
        self.topic_defaults = self._topic_defaults()
        self._check_topic_defaults()

    def _resolve_listeners(self) -> None:
        protocols = parse_protocol_map(str(self.values["listener.security.protocol.map"]))
        self.listener_security_protocol_map = protocols
        text = str(self.values["listeners"])
        self.listeners = parse_listeners("listeners", text, protocols)
        check_ports("listeners", self.listeners)
        advertised = self.values["advertised.listeners"]
        self.advertised_listeners = self.listeners
        if advertised is not None:
            self.advertised_listeners = parse_listeners("advertised.listeners", str(advertised), protocols)
        name = self.values["inter.broker.listener.name"]
        protocol = str(self.values["security.inter.broker.protocol"])
        self.inter_broker_listener_name = protocol if name is None else str(name).upper()
        control_plane = self.values["control.plane.listener.name"]
        self.control_plane_listener_name = None if not control_plane else str(control_plane).upper()
        others = self.ottla_inter_broker_listener_names
        self.ottla_inter_broker_listener_names = tuple(name.upper() for name in others)

    @property
    def broker_listener_names(self) -> frozenset[str]:
        """The listeners that brokers connect to: the inter-broker listener, and that of the controller's requests."""
        return frozenset({self.inter_broker_listener_name, self.controller_listener_name})

    @property
    def trusted_listener_names(self) -> frozenset[str]:
        """The listeners on which requests that only brokers send are answered if there is no authorizer."""
        return self.broker_listener_names.union(self.ottla_inter_broker_listener_names)

    @property
    def controller_listener_name(self) -> str:
        """The listener that the controller sends its requests to."""
        return self.control_plane_listener_name or self.inter_broker_listener_name

    def _topic_defaults(self) -> dict[str, SettingValue]:
        """Return the broker's default for each topic setting."""
        defaults = {
            name: getattr(self, _attribute(setting)) for name, setting in TOPIC_SETTINGS.items() if setting.server
        }
        del defaults["message.format.version"]  # the broker's setting is ignored since Kafka 3.0
        return defaults

    def _check_topic_defaults(self) -> None:
        """Check the rules among a topic's settings for the broker's defaults."""
        try:
            self.log_config()
        except ConfigError as error:
            setting = TOPIC_SETTINGS[error.name]
            raise ConfigError(setting.server[0], error.value, error.rule) from None


def _attribute(topic_setting: Setting) -> str:
    return topic_setting.server[0].replace(".", "_")

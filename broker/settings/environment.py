"""Settings in environment variables, named as in Kafka's container images.

`KAFKA_LOG_RETENTION_HOURS` is `log.retention.hours`: after the prefix, `_` is a dot, `__` an underscore and `___` a
hyphen.
`OTTLA_NAME` is the setting `ottla.name` if there is one, otherwise `name`; it overrides `KAFKA_NAME`.

Other programs use these prefixes, too: variables of Kafka's start scripts, of the `ottla` command and of Kubernetes'
service links are ignored. A variable that looks like a typing error, or has a former name of a broker's setting, is
refused. Every other one causes a warning. Neither shows the value, which may be a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.listener_settings import is_prefixed
from broker.settings.names import OTTLA_PREFIX, is_mistake, is_of_clients, misspelled, refuse_unknown
from security.secret import hides
from storage.log.config import TOPIC_SETTINGS
from storage.setting import ConfigError

JMX_PORT: Final = "JMX_PORT"
KAFKA: Final = "KAFKA_"
OTTLA: Final = "OTTLA_"
_BY_LOWER_CASE: Final = {name.lower(): name for name in BROKER_SETTINGS}
_SEPARATORS: Final = {"_": ".", "__": "_", "___": "-"}
_START_SCRIPTS: Final = re.compile(
    "KAFKA_((HEAP|JVM_PERFORMANCE|GC_LOG)_OPTS|OPTS|JMX_.*|(TOOLS_)?LOG4J.*|DEBUG|HOME|MODE|VERSION|CLASSPATH)"
)
_COMMAND: Final = frozenset(
    f"OTTLA_{name}"
    for name in (
        *("BOOTSTRAP_SERVER", "COMMAND_CONFIG", "CONFIG", "DEBUG", "PROFILE"),
        *("ZOOKEEPER", "ZOOKEEPER_CONFIG", "ZOOKEEPER_JARS"),
    )
)
_SERVICE_LINK: Final = re.compile(r"\w*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*")


def data_directory() -> Path:
    """Return the data directory of a broker without settings: ottla/data in $XDG_DATA_HOME or ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "ottla" / "data"


@hides("values")
class EnvironmentSettings(NamedTuple):
    """values: settings by name. variables: the variable of each setting. warnings: about variables that are ignored."""

    values: dict[str, str]
    variables: dict[str, str]
    warnings: list[str]


def environment_settings(environment: Mapping[str, str]) -> EnvironmentSettings:
    """Return the settings in environment variables. Raises ConfigError, which names the variable."""
    found = EnvironmentSettings({}, {}, [])
    for variable in sorted(environment):  # KAFKA_ before OTTLA_, which overrides it
        if not variable.startswith((KAFKA, OTTLA)) or _is_of_others(variable, environment[variable]):
            continue
        name = _setting(variable)
        if name is not None:
            found.values[name] = environment[variable]
            found.variables[name] = variable
        else:
            found.warnings.append(_unknown(variable))
    return found


def jmx_port(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ottla.jmx.port if JMX_PORT, which Kafka's start scripts read, is set. Raises ConfigError."""
    text, setting = environment.get(JMX_PORT, "").strip(), BROKER_SETTINGS["ottla.jmx.port"]
    if not text:  # Kafka's scripts treat an empty variable as not set
        return {}
    try:
        setting.parse(text)
    except ConfigError as error:
        raise ConfigError(JMX_PORT, text, error.rule) from None
    return {setting.name: text}


def variable_of(name: str) -> str:
    """Return the variable for a setting."""
    written = name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
    return written if name.startswith(OTTLA_PREFIX) else KAFKA + written


def _names(variable: str) -> list[str]:
    """Return the names that a variable may mean, in order of precedence."""
    name = re.sub("_{1,3}", lambda found: _SEPARATORS[found[0]], variable[len(KAFKA) :]).lower()
    return [OTTLA_PREFIX + name, name] if variable.startswith(OTTLA) else [name]


def _setting(variable: str) -> str | None:
    for name in _names(variable):
        if name in _BY_LOWER_CASE or is_prefixed(name):
            return _BY_LOWER_CASE.get(name, name)
    return None


def _is_of_others(variable: str, value: str) -> bool:
    if _setting(variable) is not None:
        return False
    if variable in _COMMAND or _START_SCRIPTS.fullmatch(variable) or _SERVICE_LINK.fullmatch(variable):
        return True
    return variable.endswith("_PORT") and _SERVICE_ADDRESS.fullmatch(value) is not None


def _unknown(variable: str) -> str:
    """Return the warning for an unknown name. Raises ConfigError if the user must have meant a setting."""
    for name in _names(variable):
        if name.startswith(OTTLA_PREFIX):
            if (meant := misspelled(name, BROKER_SETTINGS)) is not None:
                raise ConfigError(variable, None, f"no setting is named {name}; the nearest is {variable_of(meant)}")
        elif not is_of_clients(name) and is_mistake(name, BROKER_SETTINGS, TOPIC_SETTINGS):
            rule = refuse_unknown(name, None, BROKER_SETTINGS, TOPIC_SETTINGS).rule
            raise ConfigError(variable, None, f"{name}: {rule}")
    return f"the environment variable {variable} is not a setting of a broker: it has no effect"

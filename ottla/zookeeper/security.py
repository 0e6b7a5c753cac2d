"""TLS and login of a command that opens ZooKeeper itself: a properties file, and `KAFKA_OPTS` as for Kafka's tools.

The file may be that of a broker, or one for the option --zk-tls-config-file of Kafka's tools: settings that are not
about ZooKeeper are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.settings.java_options import KAFKA_OPTS, zookeeper_login
from ottla.command_line.failure import CommandError, suggest
from registry.zookeeper.security import UNSECURED, ZooKeeperSecurity
from registry.zookeeper.settings import SETTING_NAMES, setting_name
from storage.setting import ConfigError

if TYPE_CHECKING:
    from storage.setting import SettingValue

_PREFIXES: Final = ("zookeeper.", "ottla.zookeeper.")
_SET_ACL: Final = setting_name("set_acl")


def zookeeper_security(file: Path | None, environment: Mapping[str, str] = os.environ) -> ZooKeeperSecurity:
    """Return how to reach ZooKeeper. Raises CommandError, which names the setting and the rule.

    As with Kafka's tools, what is created gets Kafka's ACLs if ZooKeeper knows the user; the file can have
    zookeeper.set.acl to decide otherwise.
    """
    if file is None and not environment.get(KAFKA_OPTS):
        return UNSECURED
    from broker.settings.zookeeper import load_security  # takes 10 ms; most commands have no such settings

    try:
        values: dict[str, SettingValue] = {} if file is None else _of_file(file)
        values.update(zookeeper_login(environment, values))
        has_user = any(values.get(setting_name(name)) for name in ("sasl_jaas_config", "sasl_jaas_file"))
        values.setdefault(_SET_ACL, has_user or bool(values.get(setting_name("ssl_keystore_location"))))
        return load_security(values)
    except ConfigError as error:
        raise CommandError(str(error) if file is None else f"{file}: {error}") from None


def _of_file(file: Path) -> dict[str, SettingValue]:
    """Return the parsed settings that are about the connection to ZooKeeper. Raises ConfigError, CommandError."""
    from broker.settings.catalog import BROKER_SETTINGS  # as above
    from broker.settings.properties import read_properties

    values: dict[str, SettingValue] = {}
    for name, text in read_properties(file).items():
        if name in SETTING_NAMES:
            values[name] = BROKER_SETTINGS[name].parse(text)
        elif name.startswith(_PREFIXES) and name not in BROKER_SETTINGS:
            # A typing error: without the setting that was meant, the connection may be less safe than the user thinks.
            raise CommandError(f"{file}: {name} is not a setting{suggest(name, list(SETTING_NAMES))}")
    return values

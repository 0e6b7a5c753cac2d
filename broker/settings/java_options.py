"""Java's properties in `KAFKA_OPTS`, with which operators of Kafka give the login to ZooKeeper.

    KAFKA_OPTS="-Djava.security.auth.login.config=/etc/kafka/jaas.conf"

Kafka logs in to ZooKeeper if that file has the section `Client`. The same happens here. Other options are Java's own
and have no effect; one that would encrypt the connection to ZooKeeper is refused.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from registry.errors import ZooKeeperSettingError
from registry.zookeeper.settings import CLIENT_SECTION, jaas_sections, setting_name
from storage.setting import ConfigError

KAFKA_OPTS: Final = "KAFKA_OPTS"
_FILE: Final = "java.security.auth.login.config"
_SECTION: Final = "zookeeper.sasl.clientconfig"
_SERVICE: Final = "zookeeper.sasl.client.username"
_SERVER: Final = "zookeeper.server.principal"
_IS_ON: Final = "zookeeper.sasl.client"
_SECURE: Final = "zookeeper.client.secure"


def zookeeper_login(environment: Mapping[str, str], settings: Container[str]) -> dict[str, str]:
    """Return the settings of the login to ZooKeeper that `KAFKA_OPTS` names; none if it names no login.

    settings: the names that are set elsewhere, which win. Raises ConfigError, as Kafka does not start: a file that
    cannot be read; a login that is there and switched off; a section that is named and missing.
    """
    options = _properties(environment.get(KAFKA_OPTS, ""))
    if options.get(_SECURE, "").lower() == "true" and setting_name("ssl_client_enable") not in settings:
        rule = f"{_SECURE} has no effect: use zookeeper.ssl.client.enable and the other settings zookeeper.ssl.*"
        raise ConfigError(KAFKA_OPTS, None, rule)
    location = options.get(_FILE, "").removeprefix("=").removeprefix("file:")
    if not location or any(setting_name(name) in settings for name in ("sasl_jaas_config", "sasl_jaas_file")):
        return {}
    try:
        sections = jaas_sections(KAFKA_OPTS, location)
    except ZooKeeperSettingError as error:
        raise ConfigError(KAFKA_OPTS, None, error.rule) from None
    section = options.get(_SECTION, CLIENT_SECTION)
    if section not in sections:
        if _SECTION in options:
            raise ConfigError(KAFKA_OPTS, None, f"{location} has no section {section} ({_SECTION})")
        return {}
    if options.get(_IS_ON, "true").lower() != "true":
        raise ConfigError(KAFKA_OPTS, None, f"{location} has the section {section}, but {_IS_ON} is false")
    if _SERVER in options:
        rule = f"{_SERVER} is not supported: use {_SERVICE}, and the host names of zookeeper.connect"
        raise ConfigError(KAFKA_OPTS, None, rule)
    found = {setting_name("sasl_jaas_file"): location, setting_name("sasl_clientconfig"): section}
    service = setting_name("sasl_client_username")
    return found | ({service: options[_SERVICE]} if _SERVICE in options and service not in settings else {})


def _properties(text: str) -> dict[str, str]:
    """Return Java's properties. Kafka's scripts split the variable at white space, and quotation marks stay."""
    found = (word.removeprefix("-D").partition("=") for word in text.split() if word.startswith("-D"))
    return {name: value for name, _, value in found}

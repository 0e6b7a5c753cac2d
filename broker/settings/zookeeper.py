"""The settings of the connection to ZooKeeper, from those of a broker, or from a file that a command reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.console_checks import is_loopback
from registry.errors import BadArgumentsError, ZooKeeperSettingError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.security import ZooKeeperSecurity
from registry.zookeeper.settings import SETTING_NAMES, ZooKeeperSettings, setting_name
from storage.setting import ConfigError, SettingValue

if TYPE_CHECKING:
    from broker.settings.config import BrokerConfig

_SET_ACL = setting_name("set_acl")
_NEUTRAL = (setting_name("client_cnxn_socket"), setting_name("sasl_clientconfig"), setting_name("sasl_client_username"))
"""Settings that promise nothing by themselves."""


def check_zookeeper_security(config: BrokerConfig) -> None:
    """Check what can be checked without reading files. Raises ConfigError."""
    if not config.zookeeper_connect:
        _refuse_without_zookeeper(config)
        return
    settings = ZooKeeperSettings.of(config.value)
    try:
        settings.check()
    except ZooKeeperSettingError as error:
        raise _config_error(error, config.values) from None
    if settings.has_login and not settings.ssl_client_enable:
        _warn_of_plain_text(config)


def _warn_of_plain_text(config: BrokerConfig) -> None:
    try:
        servers = ZooKeeperAddress.parse(config.zookeeper_connect or "").servers
    except BadArgumentsError:  # refused by another check
        return
    if not all(is_loopback(server.host) for server in servers):
        config.warnings.append(
            f"the login to ZooKeeper does not encrypt: keys of SCRAM users and of delegation tokens are sent to "
            f"zookeeper.connect={config.zookeeper_connect} in plain text; set {setting_name('ssl_client_enable')}=true"
        )


def load_zookeeper_security(config: BrokerConfig) -> ZooKeeperSecurity:
    """Read stores and JAAS file of a broker's settings. Raises ConfigError."""
    return load_security(config.values)


def load_security(values: Mapping[str, SettingValue]) -> ZooKeeperSecurity:
    """Read stores and JAAS file of parsed settings; those that are missing are not set. Raises ConfigError."""
    try:
        return ZooKeeperSettings.of(values.get).load()
    except ZooKeeperSettingError as error:
        raise _config_error(error, values) from None


def _refuse_without_zookeeper(config: BrokerConfig) -> None:
    for name in SETTING_NAMES:
        setting = BROKER_SETTINGS[name]
        if name in _NEUTRAL or config.values[name] in (setting.default, "", ()):
            continue
        rule = "needs zookeeper.connect"
        if name == _SET_ACL:
            rule += ": the embedded registry is a file in log.dirs, which only the permissions of the file protect"
        raise setting.error(setting.text(config.values[name]), rule)


def _config_error(error: ZooKeeperSettingError, values: Mapping[str, Any]) -> ConfigError:
    setting, value = BROKER_SETTINGS[error.setting], values.get(error.setting)
    if value is None:
        return ConfigError(error.setting, None, error.rule)
    return setting.error(setting.text(value), error.rule)

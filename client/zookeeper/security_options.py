"""Options of `ZooKeeperConsumer` for TLS and the login to ZooKeeper; those of the brokers are `SecurityOptions`."""

from dataclasses import dataclass, field, fields
from typing import Any, Final

from client.options import refuse
from client.wire.security_options import SecurityKeywords, SecurityOptions
from registry.errors import ZooKeeperSettingError
from registry.zookeeper.security import ZooKeeperSecurity
from registry.zookeeper.settings import NETTY_SOCKET, ZooKeeperSettings, setting_name
from security.secret import Secret

_SOCKET: Final = setting_name("client_cnxn_socket")
_LISTS: Final = ("zookeeper_ssl_enabled_protocols", "zookeeper_ssl_cipher_suites")
_SECRETS: Final = (
    "zookeeper_ssl_keystore_password",
    "zookeeper_ssl_truststore_password",
    "zookeeper_sasl_jaas_config",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurityOptions(SecurityOptions):
    """How the consumer reaches ZooKeeper. The names are those of a broker's settings with _ for dots; None: not set.

    `zookeeper_ssl_client_enable` encrypts the connection. Types of stores are JKS, PKCS12 and PEM; by default, the end
    of the file's name decides (.jks, .p12, .pem). Lists are texts with commas. `zookeeper_sasl_jaas_config` is a JAAS
    line of ZooKeeper's DigestLoginModule with user and password, or of Krb5LoginModule. `zookeeper_sasl_jaas_file` is a
    file with it in its section `zookeeper_sasl_clientconfig`. With Kerberos, `zookeeper_sasl_client_username` is the
    first part of the servers' principals, by default zookeeper. With `zookeeper_set_acl`, only the user of this
    consumer may change what it creates.

    Raises InvalidOptionError for a value that breaks a rule. Secrets are not in the `repr`.
    """

    zookeeper_set_acl: bool | None = None
    zookeeper_ssl_client_enable: bool | None = None
    zookeeper_ssl_keystore_location: str | None = None
    zookeeper_ssl_keystore_password: str | None = field(default=None, repr=False)
    zookeeper_ssl_keystore_type: str | None = None
    zookeeper_ssl_truststore_location: str | None = None
    zookeeper_ssl_truststore_password: str | None = field(default=None, repr=False)
    zookeeper_ssl_truststore_type: str | None = None
    zookeeper_ssl_protocol: str | None = None
    zookeeper_ssl_enabled_protocols: str | None = None
    zookeeper_ssl_cipher_suites: str | None = None
    zookeeper_ssl_endpoint_identification_algorithm: str | None = None
    zookeeper_sasl_jaas_config: str | None = field(default=None, repr=False)
    zookeeper_sasl_jaas_file: str | None = None
    zookeeper_sasl_clientconfig: str | None = None
    zookeeper_sasl_client_username: str | None = None

    def __post_init__(self) -> None:
        SecurityOptions.__post_init__(self)
        for name in _SECRETS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Secret(getattr(self, name)))
        try:
            self._settings().check()
        except ZooKeeperSettingError as error:
            raise self._refusal(error) from None

    def load_zookeeper_security(self) -> ZooKeeperSecurity:
        """Read the stores and the JAAS file. Raises InvalidOptionError."""
        try:
            return self._settings().load()
        except ZooKeeperSettingError as error:
            raise self._refusal(error) from None

    def _settings(self) -> ZooKeeperSettings:
        return ZooKeeperSettings.of(self._value)

    def _value(self, setting: str) -> Any:
        if setting == _SOCKET:  # a Java class; TLS needs no other here
            return NETTY_SOCKET
        name = _option(setting)
        value = getattr(self, name) if name in _NAMES else None
        if name in _LISTS and value is not None:
            return tuple(one.strip() for one in value.split(",") if one.strip())
        return value

    def _refusal(self, error: ZooKeeperSettingError) -> Exception:
        name = _option(error.setting)
        return refuse(name, getattr(self, name), error.rule)


_NAMES: Final = tuple(one.name for one in fields(ZooKeeperSecurityOptions))


def _option(setting: str) -> str:
    """Return the option for a broker's setting."""
    return setting.removeprefix("ottla.").replace(".", "_")


class ZooKeeperSecurityKeywords(SecurityKeywords, total=False):
    """The fields of `ZooKeeperSecurityOptions` as keyword arguments."""

    zookeeper_set_acl: bool | None
    zookeeper_ssl_client_enable: bool | None
    zookeeper_ssl_keystore_location: str | None
    zookeeper_ssl_keystore_password: str | None
    zookeeper_ssl_keystore_type: str | None
    zookeeper_ssl_truststore_location: str | None
    zookeeper_ssl_truststore_password: str | None
    zookeeper_ssl_truststore_type: str | None
    zookeeper_ssl_protocol: str | None
    zookeeper_ssl_enabled_protocols: str | None
    zookeeper_ssl_cipher_suites: str | None
    zookeeper_ssl_endpoint_identification_algorithm: str | None
    zookeeper_sasl_jaas_config: str | None
    zookeeper_sasl_jaas_file: str | None
    zookeeper_sasl_clientconfig: str | None
    zookeeper_sasl_client_username: str | None

"""The settings of the connection to ZooKeeper: TLS, the login, and the ACLs of znodes.

The names of TLS are Kafka's. Kafka takes the login from Java's JAAS file; here it is a line, or such a file, of its own
settings. What Kafka ignores, so that the connection looks safer than it is, is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from protocol.surrogates import RULE, has_lone_surrogate
from registry.errors import ZooKeeperSettingError
from registry.zookeeper.security import DigestLogin, Login, TicketLogin, ZooKeeperSecurity
from security.jaas import KERBEROS_MODULE, ZOOKEEPER_MODULE, JaasEntry, JaasError, parse_jaas_file, parse_zookeeper_jaas
from security.sasl.kerberos_login import KerberosLogin
from security.secret import Secret, revealed

if TYPE_CHECKING:
    import ssl

NETTY_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
NIO_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
CLIENT_SECTION: Final = "Client"
DEFAULT_SERVICE: Final = "zookeeper"
_STORE_TYPES: Final = {".jks": "JKS", ".p12": "PKCS12", ".pem": "PEM"}
_OTHER_NAMES: Final = {"client_cnxn_socket": "zookeeper.clientCnxnSocket"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """Kafka's `zookeeper.*` settings of security, and `ottla.zookeeper.sasl.*`; `setting_name` has the name of each.

    None means "not set". Secrets are not in the `repr`.
    """

    client_cnxn_socket: str | None = None
    set_acl: bool = False
    ssl_client_enable: bool = False
    ssl_keystore_location: str | None = None
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_keystore_type: str | None = None
    ssl_truststore_location: str | None = None
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_truststore_type: str | None = None
    ssl_protocol: str = "TLSv1.2"
    ssl_enabled_protocols: tuple[str, ...] = ()
    ssl_cipher_suites: tuple[str, ...] = ()
    ssl_endpoint_identification_algorithm: str = "HTTPS"
    ssl_crl_enable: bool = False
    ssl_ocsp_enable: bool = False
    sasl_jaas_config: str | None = field(default=None, repr=False)
    sasl_jaas_file: str | None = None
    sasl_clientconfig: str = CLIENT_SECTION
    sasl_client_username: str = DEFAULT_SERVICE

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> Self:
        """Take every field from `value`, which returns the parsed value of a setting's name (None: not set)."""
        given = {one.name: value(setting_name(one.name)) for one in dataclasses.fields(cls)}
        return cls(**{name: given_value for name, given_value in given.items() if given_value is not None})

    @property
    def has_login(self) -> bool:
        """Whether there is a login."""
        return bool(self.sasl_jaas_config or self.sasl_jaas_file)

    def check(self) -> None:
        """Check the rules that need no file. Raises ZooKeeperSettingError."""
        for name in ("ssl_keystore_password", "ssl_truststore_password", "sasl_jaas_config"):
            if has_lone_surrogate(revealed(getattr(self, name) or "")):
                raise _error(name, RULE)
        for name in ("ssl_crl_enable", "ssl_ocsp_enable"):
            if getattr(self, name):
                raise _error(name, "checks of revoked certificates are not supported")
        if self.client_cnxn_socket not in (None, "", NETTY_SOCKET, NIO_SOCKET):
            raise _error("client_cnxn_socket", f"must be {NETTY_SOCKET} or {NIO_SOCKET}: Java classes cannot be used")
        self._check_tls()
        if self.sasl_jaas_config and self.sasl_jaas_file:
            raise _error("sasl_jaas_file", f"must not be set with {setting_name('sasl_jaas_config')}")
        if self.sasl_clientconfig != CLIENT_SECTION and not self.sasl_jaas_file:
            raise _error("sasl_clientconfig", f"has no effect without {setting_name('sasl_jaas_file')}")
        if self.sasl_client_username != DEFAULT_SERVICE and not self.has_login:
            raise _error("sasl_client_username", f"has no effect without {setting_name('sasl_jaas_config')}")
        if self.set_acl and not self.has_login and not (self.ssl_client_enable and self.ssl_keystore_location):
            rule = (
                f"needs a login to ZooKeeper ({setting_name('sasl_jaas_config')}) or a client certificate"
                f" ({setting_name('ssl_keystore_location')}): without one, ZooKeeper does not know the creator"
            )
            raise _error("set_acl", rule)

    def _check_tls(self) -> None:
        if self.ssl_client_enable:
            if self.client_cnxn_socket != NETTY_SOCKET:
                rule = f"needs {setting_name('client_cnxn_socket')}={NETTY_SOCKET}: without it, Kafka uses plain text"
                raise _error("ssl_client_enable", rule)
            return
        for one in dataclasses.fields(self):
            if one.name.startswith("ssl_") and getattr(self, one.name) not in (one.default, ""):
                raise _error(one.name, f"has no effect without {setting_name('ssl_client_enable')}=true")

    def load(self) -> ZooKeeperSecurity:
        """Read the JAAS file, and the stores for the first time. Raises ZooKeeperSettingError."""
        self.check()
        if self.ssl_client_enable:
            self._tls()
        return ZooKeeperSecurity(self._tls if self.ssl_client_enable else None, self._login(), self.set_acl)

    def _tls(self) -> ssl.SSLContext:
        # ssl and what reads certificates cost a start without TLS 10 ms and more.
        from security.tls.contexts import client_context
        from security.tls.errors import TlsConfigError
        from security.tls.settings import DEFAULT_PROTOCOLS, TlsSettings

        key_type = self._store_type("ssl_keystore", self.ssl_keystore_location, self.ssl_keystore_type)
        trust_type = self._store_type("ssl_truststore", self.ssl_truststore_location, self.ssl_truststore_type)
        # In ZooKeeper, the password of a PEM key store is that of the key, and that of a PEM trust store is not used.
        is_pem_key = key_type == "PEM"
        versions = DEFAULT_PROTOCOLS if self.ssl_protocol == "TLS" else (self.ssl_protocol,)
        settings = TlsSettings(
            keystore_type=key_type,
            keystore_location=self.ssl_keystore_location,
            keystore_password=None if is_pem_key else self.ssl_keystore_password,
            key_password=self.ssl_keystore_password if is_pem_key else None,
            truststore_type=trust_type,
            truststore_location=self.ssl_truststore_location,
            truststore_password=None if trust_type == "PEM" else self.ssl_truststore_password,
            protocol=self.ssl_protocol,
            enabled_protocols=self.ssl_enabled_protocols or versions,
            cipher_suites=self.ssl_cipher_suites,
            endpoint_identification_algorithm=self.ssl_endpoint_identification_algorithm,
        )
        try:
            return client_context(settings)
        except TlsConfigError as error:
            name = "ssl.keystore.password" if error.setting == "ssl.key.password" else error.setting
            raise ZooKeeperSettingError(f"zookeeper.{name}", error.rule) from None

    def _store_type(self, store: str, location: str | None, kind: str | None) -> str:
        """Return the type of a store: the setting, or by the end of the file's name."""
        if kind or not location:
            return kind or "JKS"
        found = _STORE_TYPES.get(Path(location).suffix)
        if found is None:
            rule = f"must be set: the file's name ends in none of {', '.join(_STORE_TYPES)}"
            raise _error(f"{store}_type", rule)
        return found

    def _login(self) -> Login | None:
        if self.sasl_jaas_config:
            try:
                entry = parse_zookeeper_jaas(revealed(self.sasl_jaas_config))
            except JaasError as error:
                raise _error("sasl_jaas_config", str(error)) from None
            return self._login_of("sasl_jaas_config", entry)
        if self.sasl_jaas_file:
            entries = jaas_sections(setting_name("sasl_jaas_file"), self.sasl_jaas_file).get(self.sasl_clientconfig)
            if not entries or len(entries) > 1:
                rule = f"the file must have a section {self.sasl_clientconfig} with one login module"
                raise _error("sasl_jaas_file", rule)
            return self._login_of("sasl_jaas_file", entries[0])
        return None

    def _login_of(self, field_name: str, entry: JaasEntry) -> Login:
        if entry.login_module == KERBEROS_MODULE:
            return _ticket_login(field_name, entry, self.sasl_client_username)
        if self.sasl_client_username != DEFAULT_SERVICE:
            raise _error("sasl_client_username", f"has an effect only with {KERBEROS_MODULE}")
        return _digest_login(field_name, entry)


def setting_name(field_name: str) -> str:
    """Return the name of the setting for a field of `ZooKeeperSettings`."""
    prefix = "ottla.zookeeper." if field_name.startswith("sasl_") else "zookeeper."
    return _OTHER_NAMES.get(field_name) or prefix + field_name.replace("_", ".")


SETTING_NAMES: Final = tuple(setting_name(one.name) for one in dataclasses.fields(ZooKeeperSettings))


def jaas_sections(name: str, location: str) -> dict[str, list[JaasEntry]]:
    """Read a JAAS file. name: of the setting, for errors. Raises ZooKeeperSettingError."""
    try:
        return parse_jaas_file(Path(location).read_text())
    except JaasError as error:
        raise ZooKeeperSettingError(name, f"{location} is not a JAAS file: {error}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a zero byte in the name
        why = error.strerror if isinstance(error, OSError) else "it is not a text in UTF-8"
        raise ZooKeeperSettingError(name, f"{location} cannot be read: {why}") from None


def _ticket_login(field_name: str, entry: JaasEntry, service: str) -> TicketLogin:
    try:
        tickets = KerberosLogin.of_client(entry.options)
    except JaasError as error:
        raise _error(field_name, str(error)) from None
    if find_spec("gssapi") is None:
        raise _error(field_name, "GSSAPI needs the Python package gssapi: install ottla with the extra 'kerberos'")
    return TicketLogin(tickets, service)


def _digest_login(field_name: str, entry: JaasEntry) -> DigestLogin:
    if entry.login_module != ZOOKEEPER_MODULE:
        raise _error(field_name, f"the login module must be {ZOOKEEPER_MODULE} or {KERBEROS_MODULE}")
    username, password = entry.options.get("username"), entry.options.get("password")
    if not username or not password:
        raise _error(field_name, "the login module needs the options username and password")
    if "${" in username or "${" in password:
        raise _error(field_name, "${...} is not replaced: write the value itself")
    return DigestLogin(username, Secret(password))


def _error(field_name: str, rule: str) -> ZooKeeperSettingError:
    return ZooKeeperSettingError(setting_name(field_name), rule)

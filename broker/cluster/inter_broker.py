"""TLS and the SASL login of connections to other brokers, from the settings of the listener that they connect to.

This broker presents the listener's certificate as its client certificate. It logs in with the user of the JAAS line of
`sasl.mechanism.inter.broker.protocol`. When the stores change (a dynamic setting or a file), new connections use the
new stores, under the rules of the listener (security/tls/stores_in_use.py); else the old ones stay in use.
"""

from __future__ import annotations

import logging
import random as random_module
import ssl
from typing import Any, Final

from broker.settings.config import BrokerConfig
from broker.settings.listener_settings import ListenerSettings
from client.errors import InvalidOptionError
from client.wire.client_security import sasl_login
from client.wire.connection_security import UNSECURED, ConnectionSecurity
from client.wire.login_options import OAUTHBEARER
from client.wire.sasl_login import SaslLogin
from client.wire.security_options import SecurityOptions
from security.sasl.gss_context import GSSAPI
from security.urls import broken_rule, shown
from storage.setting import ConfigError

logger = logging.getLogger(__name__)

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_JAAS: Final = "sasl.jaas.config"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"


def inter_broker_security(config: BrokerConfig, name: str, random: random_module.Random) -> ConnectionSecurity:
    """Return how this broker connects to others, on the listener of this name. It reads the stores.

    Raises ConfigError.
    """
    protocol = config.listener_security_protocol_map[name]
    if protocol == "PLAINTEXT":
        return UNSECURED
    tls = InterBrokerTls(config, name) if protocol.endswith("SSL") else None
    login = _login(config.of_listener(name), random) if protocol.startswith("SASL") else None
    return ConnectionSecurity(None if tls is None else tls.context, login)


class InterBrokerTls:
    """The context of connections to other brokers, made again when the stores have changed."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        """Read the stores, and check that a broker with them trusts another one. Raises ConfigError."""
        # As in Listeners.prepare: a plain broker does not need them.
        from security.tls.contexts import client_tls
        from security.tls.errors import TlsConfigError
        from security.tls.self_handshake import check_self_handshake
        from security.tls.settings import TlsSettings
        from security.tls.stores_in_use import ReplacementRules, StoresInUse

        self._config = config
        self._listener = listener
        self._settings_of = TlsSettings.of
        self._refusal = TlsConfigError
        settings = config.of_listener(listener)
        client_auth = str(settings.value("ssl.client.auth"))
        found = TlsSettings.of(settings.value)
        rules = ReplacementRules(
            may_change_subject=bool(settings.value("ssl.allow.dn.changes")),
            may_lose_names=bool(settings.value("ssl.allow.san.changes")),
            self_client_auth=client_auth,
        )
        try:
            self._stores = StoresInUse(found, client_tls, rules)
            check_self_handshake(found, client_auth)
        except TlsConfigError as error:
            raise ConfigError(settings.lookup(error.setting)[0], None, error.rule) from None

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        stores = self._stores
        wanted = stores.wanted(self._settings_of(self._config.of_listener(self._listener).value))
        if wanted not in (stores.used, stores.refused):
            try:
                stores.use(wanted, stores.successor(wanted))
            except self._refusal as error:
                stores.refuse(wanted)
                logger.error("connections to other brokers keep the key and trust stores that they have: %s", error)
        return stores.context


def _login(settings: ListenerSettings, random: random_module.Random) -> SaslLogin:
    """Return the login at other brokers. Raises ConfigError."""
    mechanism = settings.value(_MECHANISM)
    jaas_setting, jaas = settings.lookup(_JAAS, str(mechanism))
    url = _token_url(settings) if mechanism == OAUTHBEARER else None
    try:
        options = SecurityOptions(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=str(mechanism),
            sasl_jaas_config=None if jaas is None else str(jaas),
            sasl_oauthbearer_token_endpoint_url=url,
            sasl_kerberos_service_name=_service_name(settings) if mechanism == GSSAPI else None,
        )
        return sasl_login(options, random)
    except InvalidOptionError as error:
        rule = str(error).partition(": ")[2]
        raise ConfigError(jaas_setting, None, f"brokers log in with {mechanism}: the value {rule}") from None


def _token_url(settings: ListenerSettings) -> str | None:
    name, value = settings.lookup(_TOKEN_URL, OAUTHBEARER)
    url = str(value or "")
    if url and (rule := broken_rule(url, "https://", "http://")) is not None:
        raise ConfigError(name, shown(url), rule)
    return url or None


def _service_name(settings: ListenerSettings) -> str | None:
    value: Any = settings.value("sasl.kerberos.service.name", GSSAPI)
    return value or None

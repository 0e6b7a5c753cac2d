"""TLS of one listener: the context of its handshakes, and the user of a client certificate.

New stores (key store, trust store) are used for new handshakes while the listener runs: because a dynamic setting names
other stores, or because a file has changed. Connections that exist keep what they have. As in Kafka, other TLS settings
take effect at the next start, so a change of ssl.client.auth does not open a listener.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.authentication.audit import TlsFailures
from broker.network.connection import CloseConnectionError
from broker.network.listener import Listener
from broker.settings.listener_settings import ListenerSettings
from security.principal import ANONYMOUS, USER, Principal
from security.tls.contexts import LoadedTls, server_tls
from security.tls.distinguished_name import NameFormatError, subject_of
from security.tls.errors import TlsConfigError
from security.tls.principal_mapping import NoMatchingRuleError, PrincipalMapping
from security.tls.settings import TlsSettings
from security.tls.stores_in_use import ReplacementRules, Stores, StoresInUse
from storage.setting import ConfigError

if TYPE_CHECKING:
    from broker.network.tls_server import TlsAcceptor

logger = logging.getLogger(__name__)

POLL_S = 5.0
"""How often the files of the stores are looked at."""


class ListenerTls:
    """What the TLS connections of one listener share."""

    def __init__(
        self,
        listener: Listener,
        settings: ListenerSettings,
        *,
        is_between_brokers: bool = False,
        stat: Callable[[str], os.stat_result] = os.stat,
    ) -> None:
        """Read the settings of the listener. Raises ConfigError with the name that the user has written.

        is_between_brokers: brokers connect to each other with these stores, so new ones must trust themselves. (The
        first ones are checked with the connections: broker/cluster/inter_broker.py.)
        """
        self.name = listener.name
        self._has_sasl = listener.security_protocol != "SSL"
        self.client_auth = self._client_auth(settings)
        self._names = settings
        rules = ReplacementRules(
            may_change_subject=bool(settings.value("ssl.allow.dn.changes")),
            may_lose_names=bool(settings.value("ssl.allow.san.changes")),
            self_client_auth=self.client_auth if is_between_brokers else None,
        )
        self._failures: TlsFailures | None = None
        try:
            self._mapping = PrincipalMapping(str(settings.value("ssl.principal.mapping.rules")))
            self._stores = StoresInUse(TlsSettings.of(settings.value), self._load, rules, stat)
        except TlsConfigError as error:
            raise _config_error(settings, error) from None

    def _load(self, settings: TlsSettings) -> LoadedTls:
        return server_tls(settings, self.client_auth)

    def _client_auth(self, settings: ListenerSettings) -> str:
        """Return ssl.client.auth. As in Kafka, it counts for SASL_SSL only with the prefix of the listener."""
        name, value = settings.lookup("ssl.client.auth")
        return "none" if self._has_sasl and name == "ssl.client.auth" else str(value)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next handshake."""
        return self._stores.context

    def principal(self, certificate: bytes | None) -> Principal:
        """Return the user of a client with this certificate (DER). Raises CloseConnectionError if it has no name.

        With SASL, the user is the one that SASL proves.
        """
        if certificate is None or self._has_sasl:
            return ANONYMOUS
        try:
            return Principal(USER, self._mapping.name_of(subject_of(certificate)))
        except (NoMatchingRuleError, NameFormatError) as error:
            raise CloseConnectionError(f"the client certificate gives no user name: {error}") from None

    def login(self, certificate: bytes | None, host: str, acceptor: TlsAcceptor) -> Principal:
        """`principal`, with a line in the audit log for a certificate that is refused."""
        try:
            return self.principal(certificate)
        except CloseConnectionError as error:
            if self._failures is None:
                self._failures = TlsFailures(acceptor.name, acceptor.now_s)
            self._failures.add(host, str(error))
            raise

    def log_weaknesses(self) -> None:
        """Warn about a listener that no client can use, and about a setting that does not count here."""
        wanted = self._names.value("ssl.client.auth")
        if wanted != self.client_auth:
            logger.warning(
                "ssl.client.auth=%s does not apply to the SASL_SSL listener %s: set %sssl.client.auth",
                wanted,
                self.name,
                self._names.prefix,
            )
        if self._stores.certificate is None:
            logger.warning("listener %s has no key store: every TLS handshake fails (ssl.keystore.location)", self.name)
        elif self.client_auth != "none" and not self._stores.has_trust_store:
            logger.warning(
                "listener %s has no trust store: no client certificate is trusted (ssl.truststore.location)", self.name
            )

    # -- new stores ------------------------------------------------------------------------------------------------

    def check(self, settings: ListenerSettings) -> None:
        """Raise ConfigError if the running listener cannot use the stores of these settings."""
        wanted = self._stores.wanted(TlsSettings.of(settings.value))
        if wanted != self._stores.used:
            try:
                self._stores.successor(wanted)
            except TlsConfigError as error:
                raise _config_error(settings, error) from None

    def use_stores_of(self, settings: ListenerSettings) -> None:
        """Use the stores of changed settings for new handshakes. Keep the old ones, and log why, if they are wrong."""
        self._names = settings
        wanted = self._stores.wanted(TlsSettings.of(settings.value))
        if wanted == self._stores.used:
            return
        try:
            tls = self._stores.successor(wanted)
        except TlsConfigError as error:
            self._refuse(error, wanted)
        else:
            self._use(wanted, tls)

    async def watch_files(self, poll_s: float = POLL_S) -> None:
        """Use the stores again when their files have changed, until cancelled."""
        while True:
            await asyncio.sleep(poll_s)
            before = self._stores.used
            found = self._stores.wanted()
            if found in (before, self._stores.refused):
                continue
            try:
                tls = await asyncio.to_thread(self._stores.successor, found)
            except TlsConfigError as error:
                self._refuse(error, found)
                continue
            if self._stores.used is before:  # else other stores were set meanwhile
                self._use(found, tls)

    def _use(self, stores: Stores, tls: LoadedTls) -> None:
        self._stores.use(stores, tls)
        logger.info("listener %s uses new key and trust stores", self.name)

    def _refuse(self, error: TlsConfigError, stores: Stores) -> None:
        self._stores.refuse(stores)
        logger.error("listener %s keeps its stores: %s", self.name, _config_error(self._names, error))


def _config_error(settings: ListenerSettings, error: TlsConfigError) -> ConfigError:
    """Return the error with the full name of the setting, as the user has written it, and without its value."""
    return ConfigError(settings.lookup(error.setting)[0], None, error.rule)

"""TLS of one listener: the context of its handshakes, and the user of a client certificate.

New stores (key store, trust store) are used for new handshakes while the listener runs: because a dynamic setting names
other stores, or because a file has changed. Connections that exist keep what they have. As in Kafka, other TLS settings
take effect at the next start, so a change of ssl.client.auth does not open a listener.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import ssl
from collections.abc import Callable

from broker.network.connection import CloseConnectionError
from broker.network.listener import Listener
from broker.settings.listener_settings import ListenerSettings
from security.principal import ANONYMOUS, USER, Principal
from security.tls.contexts import ServerTls, server_tls
from security.tls.distinguished_name import NameFormatError, subject_of
from security.tls.errors import TlsConfigError
from security.tls.identity import check_successor
from security.tls.principal_mapping import NoMatchingRuleError, PrincipalMapping
from security.tls.self_handshake import check_self_handshake
from security.tls.settings import TlsSettings
from storage.setting import ConfigError

logger = logging.getLogger(__name__)

STORE_FIELDS = (
    "keystore_type",
    "keystore_location",
    "keystore_password",
    "key_password",
    "keystore_key",
    "keystore_certificate_chain",
    "truststore_type",
    "truststore_location",
    "truststore_password",
    "truststore_certificates",
)
"""The fields of TlsSettings that may change while a listener runs."""

POLL_S = 5.0
"""How often the files of the stores are looked at."""

FileStates = tuple[tuple[int, int, int] | None, ...]
"""Modification time, size and inode of each file; None if it is missing."""


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
        self._settings = TlsSettings.of(settings.value)
        self._names = settings
        self._may_change_subject = bool(settings.value("ssl.allow.dn.changes"))
        self._may_lose_names = bool(settings.value("ssl.allow.san.changes"))
        self._is_between_brokers = is_between_brokers
        self._stat = stat
        self._files = self._file_states(self._settings)
        self._refused_files = self._files
        try:
            self._mapping = PrincipalMapping(str(settings.value("ssl.principal.mapping.rules")))
            self._tls = server_tls(self._settings, self.client_auth)
        except TlsConfigError as error:
            raise _config_error(settings, error) from None

    def _client_auth(self, settings: ListenerSettings) -> str:
        """Return ssl.client.auth. As in Kafka, it counts for SASL_SSL only with the prefix of the listener."""
        name, value = settings.lookup("ssl.client.auth")
        return "none" if self._has_sasl and name == "ssl.client.auth" else str(value)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next handshake."""
        return self._tls.context

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
        if self._tls.certificate is None:
            logger.warning("listener %s has no key store: every TLS handshake fails (ssl.keystore.location)", self.name)
        elif self.client_auth != "none" and not _has_trust_store(self._settings):
            logger.warning(
                "listener %s has no trust store: no client certificate is trusted (ssl.truststore.location)", self.name
            )

    # -- new stores ------------------------------------------------------------------------------------------------

    def check(self, settings: ListenerSettings) -> None:
        """Raise ConfigError if the running listener cannot use the stores of these settings."""
        wanted = self._with_stores_of(settings)
        if wanted != self._settings or self._file_states(wanted) != self._files:
            try:
                self._successor(wanted)
            except TlsConfigError as error:
                raise _config_error(settings, error) from None

    def use_stores_of(self, settings: ListenerSettings) -> None:
        """Use the stores of changed settings for new handshakes. Keep the old ones, and log why, if they are wrong."""
        self._names = settings
        wanted = self._with_stores_of(settings)
        files = self._file_states(wanted)
        if wanted == self._settings and files == self._files:
            return
        try:
            tls = self._successor(wanted)
        except TlsConfigError as error:
            self._refuse(error, files)
        else:
            self._use(wanted, tls, files)

    async def watch_files(self, poll_s: float = POLL_S) -> None:
        """Use the stores again when their files have changed, until cancelled."""
        while True:
            await asyncio.sleep(poll_s)
            settings = self._settings
            files = self._file_states(settings)
            if files in (self._files, self._refused_files):
                continue
            try:
                tls = await asyncio.to_thread(self._successor, settings)
            except TlsConfigError as error:
                self._refuse(error, files)
                continue
            if self._settings is settings:  # else other stores were set meanwhile
                self._use(settings, tls, files)

    def _with_stores_of(self, settings: ListenerSettings) -> TlsSettings:
        new = TlsSettings.of(settings.value)
        return dataclasses.replace(self._settings, **{name: getattr(new, name) for name in STORE_FIELDS})

    def _successor(self, settings: TlsSettings) -> ServerTls:
        tls = server_tls(settings, self.client_auth)
        check_successor(
            self._tls.certificate,
            tls.certificate,
            may_change_subject=self._may_change_subject,
            may_lose_names=self._may_lose_names,
        )
        if _has_trust_store(settings) != _has_trust_store(self._settings):
            rule = "a listener that runs can neither get its first trust store nor lose it"
            raise TlsConfigError("ssl.truststore.location", rule)
        if self._is_between_brokers:
            check_self_handshake(settings, self.client_auth)
        return tls

    def _use(self, settings: TlsSettings, tls: ServerTls, files: FileStates) -> None:
        self._settings, self._tls = settings, tls
        self._files = self._refused_files = files
        logger.info("listener %s uses new key and trust stores", self.name)

    def _refuse(self, error: TlsConfigError, files: FileStates) -> None:
        self._refused_files = files
        logger.error("listener %s keeps its stores: %s", self.name, _config_error(self._names, error))

    def _file_states(self, settings: TlsSettings) -> FileStates:
        return tuple(self._file_state(file) for file in (settings.keystore_location, settings.truststore_location))

    def _file_state(self, file: str | None) -> tuple[int, int, int] | None:
        if not file:
            return None
        try:
            found = self._stat(file)
        except (OSError, ValueError):  # ValueError: a zero byte in the name
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _has_trust_store(settings: TlsSettings) -> bool:
    return bool(settings.truststore_location or settings.truststore_certificates)


def _config_error(settings: ListenerSettings, error: TlsConfigError) -> ConfigError:
    """Return the error with the full name of the setting, as the user has written it, and without its value."""
    return ConfigError(settings.lookup(error.setting)[0], None, error.rule)

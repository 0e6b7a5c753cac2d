"""The key store and trust store of something that runs, and which new stores may replace them.

A listener and the connections of brokers to it have the same stores and the same rules: the subject of the certificate
stays, and no alternative name is lost, unless the rules allow it; a store neither comes nor goes; the stores of a
listener between brokers trust themselves. A replacement is loaded first and used only if it fulfils the rules. As in
Kafka, other TLS settings than those of the stores take effect at the next start.
"""

from __future__ import annotations

import dataclasses
import os
import ssl
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from security.tls.contexts import LoadedTls
from security.tls.errors import TlsConfigError
from security.tls.identity import check_successor
from security.tls.self_handshake import check_self_handshake
from security.tls.settings import TlsSettings

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
"""The fields of TlsSettings that may change at run time."""

FileState: TypeAlias = tuple[int, int, int] | None
"""Modification time, size and inode of a file; None if there is none."""


class ReplacementRules(NamedTuple):
    """What new stores must fulfil. self_client_auth: ssl.client.auth of a listener between brokers, else None."""

    may_change_subject: bool = False
    may_lose_names: bool = False
    self_client_auth: str | None = None


class Stores(NamedTuple):
    """The settings of stores, and the state of their files when it was looked at: key store, trust store."""

    settings: TlsSettings
    files: tuple[FileState, FileState]


class StoresInUse:
    """The stores that new handshakes use. `successor` may run in a thread, everything else belongs to the event loop.

    used: the stores in use. refused: those that were refused last, which are not tried again.
    """

    def __init__(
        self,
        settings: TlsSettings,
        load: Callable[[TlsSettings], LoadedTls],
        rules: ReplacementRules,
        stat: Callable[[str], os.stat_result] = os.stat,
    ) -> None:
        """Load the first stores. load: makes the context of settings. Raises TlsConfigError."""
        self._load = load
        self._rules = rules
        self._stat = stat
        self.used = self.refused = self._stores(settings)
        self._tls = load(settings)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next handshake."""
        return self._tls.context

    @property
    def certificate(self) -> bytes | None:
        """The certificate that is shown to the peer (DER); None without a key store."""
        return self._tls.certificate

    @property
    def has_trust_store(self) -> bool:
        """Whether there is a trust store, even an empty one."""
        return _has_trust_store(self.used.settings)

    def wanted(self, settings: TlsSettings | None = None) -> Stores:
        """Return the stores of these settings, or of those in use, with their files as they are now."""
        if settings is None:
            return self._stores(self.used.settings)
        stores = {name: getattr(settings, name) for name in STORE_FIELDS}
        return self._stores(dataclasses.replace(self.used.settings, **stores))

    def successor(self, stores: Stores) -> LoadedTls:
        """Load stores that may replace those in use. Raises TlsConfigError if they may not, or cannot be read."""
        tls = self._load(stores.settings)
        rules = self._rules
        check_successor(
            self._tls.certificate,
            tls.certificate,
            may_change_subject=rules.may_change_subject,
            may_lose_names=rules.may_lose_names,
        )
        if _has_trust_store(stores.settings) != self.has_trust_store:
            rule = "a listener that runs can neither get its first trust store nor lose it"
            raise TlsConfigError("ssl.truststore.location", rule)
        if rules.self_client_auth is not None:
            check_self_handshake(stores.settings, rules.self_client_auth)
        return tls

    def use(self, stores: Stores, tls: LoadedTls) -> None:
        """Use what `successor` has returned for these stores."""
        self.used = self.refused = stores
        self._tls = tls

    def refuse(self, stores: Stores) -> None:
        """Keep the stores in use; do not try these again before they change."""
        self.refused = stores

    def _stores(self, settings: TlsSettings) -> Stores:
        return Stores(settings, (self._state(settings.keystore_location), self._state(settings.truststore_location)))

    def _state(self, file: str | None) -> FileState:
        if not file:
            return None
        try:
            found = self._stat(file)
        except (OSError, ValueError):  # ValueError: a zero byte in the name
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _has_trust_store(settings: TlsSettings) -> bool:
    return bool(settings.truststore_location or settings.truststore_certificates)

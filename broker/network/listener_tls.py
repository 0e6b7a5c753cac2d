"""TLS of one listener: the context of its handshakes, and the user of a client certificate.

The context changes while the listener runs, by a dynamic setting or a new file; connections that exist keep theirs.
"""

from __future__ import annotations

import logging
import ssl

from broker.network.connection import CloseConnectionError
from broker.network.listener import Listener
from broker.settings.listener_settings import ListenerSettings
from security.principal import ANONYMOUS, USER, Principal
from security.tls.contexts import server_context
from security.tls.distinguished_name import NameFormatError, subject_of
from security.tls.errors import TlsConfigError
from security.tls.principal_mapping import NoMatchingRuleError, PrincipalMapping
from security.tls.settings import TlsSettings
from storage.setting import ConfigError

logger = logging.getLogger(__name__)

TLS_PROTOCOLS = ("SSL", "SASL_SSL")


class ListenerTls:
    """What the TLS connections of one listener share."""

    def __init__(self, listener: Listener, settings: ListenerSettings) -> None:
        """Read the settings of the listener. Raises ConfigError with the name that the user has written."""
        self.name = listener.name
        self.settings = TlsSettings.of(settings.value)
        self.client_auth = str(settings.value("ssl.client.auth"))
        self._has_sasl = listener.security_protocol != "SSL"
        try:
            self._mapping = PrincipalMapping(str(settings.value("ssl.principal.mapping.rules")))
            self.context = server_context(self.settings, self.client_auth)
        except TlsConfigError as error:
            raise config_error(settings, error) from None

    def use(self, settings: TlsSettings, context: ssl.SSLContext) -> None:
        """Use another context for new handshakes."""
        self.settings, self.context = settings, context

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
        """Warn about a listener that no client can use."""
        if not (self.settings.keystore_location or self.settings.keystore_key):
            logger.warning("listener %s has no key store: every TLS handshake fails (ssl.keystore.location)", self.name)
        elif self.client_auth != "none" and not (
            self.settings.truststore_location or self.settings.truststore_certificates
        ):
            logger.warning(
                "listener %s has no trust store: no client certificate is trusted (ssl.truststore.location)", self.name
            )


def config_error(settings: ListenerSettings, error: TlsConfigError) -> ConfigError:
    """Return the error with the full name of the setting, as the user has written it, and without its value."""
    return ConfigError(settings.lookup(error.setting)[0], None, error.rule)

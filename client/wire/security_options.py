"""Options of every client for TLS and SASL. They have the names of Kafka's settings with _ for dots.

An option that has no effect with the chosen `security_protocol` is refused: a client that is given a trust store must
not speak plain text because the protocol was forgotten.
"""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypedDict, cast

from client.options import check_choice, refuse
from client.wire.login_options import URL, login_of
from protocol.surrogates import RULE, has_lone_surrogate
from security.secret import HIDDEN, Secret, revealed
from security.urls import broken_rule, shown

PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a token that is valid now, or an awaitable of it. It is called for each login."""


def _secret() -> Any:
    return field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """How a client proves who it is, and checks who the broker is. None means "not set".

    `ssl_keystore_type` and `ssl_truststore_type` are JKS (the default, which also reads PKCS12), PKCS12 or PEM. PEM is
    a file, or a text in `ssl_keystore_key`, `ssl_keystore_certificate_chain` and `ssl_truststore_certificates`.
    Without a trust store, the authorities of the system count. An empty `ssl_endpoint_identification_algorithm` turns
    the check of the host name off. Lists are texts with commas. `ssl_context` replaces all other `ssl_` options.

    The login needs `sasl_mechanism`. User and password of PLAIN and SCRAM are `sasl_plain_username` and
    `sasl_plain_password`; a token of OAUTHBEARER is from `sasl_oauth_token_provider`, or from the token endpoint at
    `sasl_oauthbearer_token_endpoint_url` for a client id and its secret (OAuth's client credentials).
    The ticket of GSSAPI (Kerberos) is from the user's ticket cache, or from a keytab that `sasl_jaas_config` names;
    `sasl_kerberos_service_name` is the first part of the principals of brokers, "kafka" by default.
    `sasl_jaas_config`, as Java's clients have it, can contain users and clients, too (`client.wire.login_options`).

    Raises InvalidOptionError for a value that breaks a rule. Secrets are not in the `repr`.
    """

    security_protocol: str = PLAINTEXT
    ssl_context: ssl.SSLContext | None = None
    ssl_keystore_type: str | None = None
    ssl_keystore_location: str | None = None
    ssl_keystore_password: str | None = _secret()
    ssl_key_password: str | None = _secret()
    ssl_keystore_key: str | None = _secret()
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_truststore_type: str | None = None
    ssl_truststore_location: str | None = None
    ssl_truststore_password: str | None = _secret()
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_protocol: str | None = None
    ssl_enabled_protocols: str | None = None
    ssl_cipher_suites: str | None = None
    ssl_endpoint_identification_algorithm: str | None = None
    sasl_mechanism: str | None = None
    sasl_jaas_config: str | None = _secret()
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = _secret()
    sasl_oauth_token_provider: TokenProvider | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: str | None = _secret()
    sasl_oauthbearer_scope: str | None = None
    sasl_kerberos_service_name: str | None = None

    def __post_init__(self) -> None:
        for name in SECRETS:
            value = getattr(self, name)
            if value is not None:
                if not isinstance(value, str):
                    raise refuse(name, HIDDEN, "must be a text")
                object.__setattr__(self, name, Secret(value))
        self._check_texts()
        check_choice("security_protocol", self.security_protocol, SECURITY_PROTOCOLS)
        if not self.has_tls:
            self._refuse_others("ssl_", ("SSL", "SASL_SSL"))
        elif self.ssl_context is not None:
            self._check_context()
        if self.has_login:
            login_of(self)
        else:
            self._refuse_others("sasl_", ("SASL_PLAINTEXT", "SASL_SSL"))

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_login(self) -> bool:
        """Whether connections log in with SASL."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def _check_texts(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            if name not in _FILES and isinstance(value, str) and has_lone_surrogate(revealed(value)):
                raise refuse(name, value, RULE)
        url = self.sasl_oauthbearer_token_endpoint_url
        if url is not None and (rule := broken_rule(url, "https://", "http://")) is not None:
            raise refuse(URL, shown(url), rule)

    def _given(self, prefix: str) -> list[str]:
        return [name for name in NAMES if name.startswith(prefix) and getattr(self, name) is not None]

    def _refuse_others(self, prefix: str, protocols: tuple[str, ...]) -> None:
        for name in self._given(prefix):
            needed = f"needs security_protocol {' or '.join(protocols)}, not {self.security_protocol}"
            raise refuse(name, getattr(self, name), needed)

    def _check_context(self) -> None:
        if not isinstance(self.ssl_context, ssl.SSLContext):
            raise refuse("ssl_context", self.ssl_context, "must be an ssl.SSLContext")
        for name in self._given("ssl_"):
            if name != "ssl_context":
                raise refuse(name, getattr(self, name), "must not be given together with ssl_context")


NAMES: Final = tuple(one.name for one in fields(SecurityOptions))
SECRETS: Final = (
    "ssl_keystore_password",
    "ssl_key_password",
    "ssl_keystore_key",
    "ssl_truststore_password",
    "sasl_jaas_config",
    "sasl_plain_password",
    "sasl_oauthbearer_client_credentials_client_secret",
)
"""The options whose values must not be shown."""
_FILES: Final = ("ssl_keystore_location", "ssl_truststore_location")
"""The names of files, which need not be UTF-8."""


class SecurityKeywords(TypedDict, total=False):
    """The fields of `SecurityOptions` as keyword arguments of a client."""

    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_keystore_type: str | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_key_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_truststore_type: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_protocol: str | None
    ssl_enabled_protocols: str | None
    ssl_cipher_suites: str | None
    ssl_endpoint_identification_algorithm: str | None
    sasl_mechanism: str | None
    sasl_jaas_config: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_kerberos_service_name: str | None


def security_keywords(options: SecurityOptions) -> SecurityKeywords:
    """Return the security of one client as keyword arguments for another one."""
    return cast(SecurityKeywords, {name: getattr(options, name) for name in NAMES})

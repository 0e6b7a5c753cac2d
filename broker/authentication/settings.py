"""The SASL settings of one listener, checked.

As in Kafka, the JAAS line and the callback handler of a mechanism count only under their longest name,
`listener.name.<listener>.<mechanism>.<setting>`, all in lower case. Ottla reads no JAAS file. Two things that Kafka
accepts only look safe, and are refused: OAUTHBEARER without a handler (Kafka's default accepts unsigned tokens), and a
JAAS line with the login module of another mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker.settings.listener_settings import ListenerSettings
from security.jaas import LOGIN_MODULES, JaasError, parse_jaas
from security.sasl.gss_context import GSSAPI
from security.sasl.kerberos_login import KerberosLogin, service_name
from security.sasl.kerberos_names import KerberosRuleError, LocalNames
from security.tls.settings import TlsSettings
from security.urls import broken_rule, shown
from storage.setting import HIDDEN, ConfigError

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-512", GSSAPI, "SCRAM-SHA-256", OAUTHBEARER)
"""The mechanisms that Ottla has, in the order in which Kafka lists them to clients."""

_ENABLED: Final = "sasl.enabled.mechanisms"
_JAAS: Final = "sasl.jaas.config"
_HANDLER: Final = "sasl.server.callback.handler.class"
_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_SERVICE_NAME: Final = "sasl.kerberos.service.name"
_LOCAL_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_INTERNALS: Final = "org.apache.kafka.common.security"
UNSECURED_HANDLER: Final = f"{_INTERNALS}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_SIGNED_HANDLERS: Final = (
    f"{_INTERNALS}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_INTERNALS}.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_SCRAM_HANDLERS: Final = (f"{_INTERNALS}.scram.internals.ScramServerCallbackHandler",)
_HANDLERS: Final[Mapping[str, tuple[str, ...]]] = {
    PLAIN: (f"{_INTERNALS}.plain.internals.PlainServerCallbackHandler",),
    "SCRAM-SHA-256": _SCRAM_HANDLERS,
    "SCRAM-SHA-512": _SCRAM_HANDLERS,
    OAUTHBEARER: (*_SIGNED_HANDLERS, UNSECURED_HANDLER),
    GSSAPI: (f"{_INTERNALS}.authenticator.SaslServerCallbackHandler",),
}
"""The callback handlers of each mechanism that Kafka contains; others would be Java code."""


@dataclass(frozen=True)
class TokenSettings:
    """How signed tokens of OAUTHBEARER are checked. Times are in milliseconds."""

    jwks_url: str
    audiences: tuple[str, ...]
    issuer: str | None
    skew_ms: int
    principal_claim: str
    scope_claim: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    tls: TlsSettings = field(default_factory=TlsSettings)
    """Of connections to an https: URL; as in Kafka, from the `ssl.*` options of the JAAS line."""


@dataclass(frozen=True)
class KerberosSettings:
    """The key of a listener with GSSAPI, and how principals of clients become users."""

    jaas_setting: str
    """The full name of the JAAS line, for errors."""
    keytab: str
    principal: str
    rules: tuple[str, ...]


@dataclass(frozen=True)
class MechanismSettings:
    """One mechanism of a listener. options: of its JAAS line; they contain passwords."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    max_reauth_ms: int
    """How long a login lasts (KIP-368); 0 or less: until the client disconnects."""
    tokens: TokenSettings | None = None
    """For OAUTHBEARER with signed tokens; None for unsigned ones."""
    kerberos: KerberosSettings | None = None
    """For GSSAPI."""


@dataclass(frozen=True)
class SaslSettings:
    """SASL on one listener. offered: all names that clients are told, also names that are no mechanisms."""

    mechanisms: Mapping[str, MechanismSettings]
    offered: tuple[str, ...]
    max_receive_bytes: int
    """The largest request before a client is authenticated; negative: that of other requests."""


def sasl_settings(settings: ListenerSettings) -> SaslSettings:
    """Return the SASL settings of a listener. Raises ConfigError."""
    value = settings.value(_ENABLED)
    assert isinstance(value, tuple)
    enabled = [str(one) for one in value]
    receive: Any = settings.value("sasl.server.max.receive.size")
    return SaslSettings(
        mechanisms={one: _mechanism(settings, one) for one in MECHANISMS if one in enabled},
        offered=(*(one for one in MECHANISMS if one in enabled), *sorted(set(enabled) - set(MECHANISMS))),
        max_receive_bytes=receive,
    )


def sasl_warnings(settings: ListenerSettings) -> Iterator[str]:
    """Yield a warning for every enabled name that is no mechanism: clients are offered it, and cannot use it."""
    name, value = settings.lookup(_ENABLED)
    assert isinstance(value, tuple)
    for unknown in sorted({str(one) for one in value} - set(MECHANISMS)):
        yield f"{name}: {unknown} is no SASL mechanism; names are case-sensitive, and clients that use it are refused"


def _mechanism(settings: ListenerSettings, mechanism: str) -> MechanismSettings:
    prefix = f"{settings.prefix}{mechanism.lower()}."
    options = _jaas_options(settings, prefix, mechanism)
    handler = _handler(settings, prefix, mechanism)
    tokens = token_settings(settings, mechanism, options) if handler in _SIGNED_HANDLERS else None
    reauth: Any = settings.value("connections.max.reauth.ms", mechanism)
    kerberos = _kerberos_settings(settings, prefix, options) if mechanism == GSSAPI else None
    found = MechanismSettings(mechanism, options, reauth, tokens, kerberos)
    if mechanism == OAUTHBEARER and tokens is None:
        _checked(prefix + _JAAS, lambda: _check_unsecured(options))
    return found


def _jaas_options(settings: ListenerSettings, prefix: str, mechanism: str) -> Mapping[str, str]:
    name, value = settings.lookup(_JAAS, mechanism)
    if name != prefix + _JAAS or value is None:
        default = f" (the default of {_ENABLED})" if settings.lookup(_ENABLED)[1] == (GSSAPI,) else ""
        rule = (
            f"must be set because {mechanism} is enabled{default}, for example to "
            f"'{LOGIN_MODULES[mechanism]} required ...;'; "
            "shorter names of this setting and JAAS files do not count"
        )
        raise ConfigError(prefix + _JAAS, None, rule)

    def parse() -> Mapping[str, str]:
        entry = parse_jaas(str(value))
        entry.check_mechanism(mechanism)
        return entry.options

    options: Mapping[str, str] = _checked(name, parse)
    return options


def _handler(settings: ListenerSettings, prefix: str, mechanism: str) -> str | None:
    name, value = settings.lookup(_HANDLER, mechanism)
    known = _HANDLERS[mechanism]
    if name == _HANDLER or not value:
        if mechanism == OAUTHBEARER:
            rule = (
                f"must be set because {OAUTHBEARER} is enabled, to {_SIGNED_HANDLERS[0]}; Kafka's default, "
                f"{UNSECURED_HANDLER}, accepts tokens without a signature: name it if you want that"
            )
            raise ConfigError(prefix + _HANDLER, None, rule)
        return None
    if name != prefix + _HANDLER:
        raise ConfigError(name, value, f"only {prefix}{_HANDLER} counts: name the mechanism")
    if value not in known:
        raise ConfigError(name, value, f"must be one of Kafka's own handlers of {mechanism}: {', '.join(known)}")
    return str(value)


def check_callback_handler(value: object) -> None:
    """Raise ConfigError if the callback handler of all listeners is not a class that Kafka contains."""
    known = sorted({handler for handlers in _HANDLERS.values() for handler in handlers})
    if value and value not in known:
        raise ConfigError(_HANDLER, value, f"must be one of Kafka's own handlers: {', '.join(known)}")


def check_own_mechanism(settings: ListenerSettings) -> None:
    """Raise ConfigError if brokers could not log in to each other on a listener between brokers."""
    mechanism_setting, mechanism = settings.lookup("sasl.mechanism.inter.broker.protocol")
    enabled_setting, enabled = settings.lookup("sasl.enabled.mechanisms")
    names: Any = enabled
    if mechanism not in names:
        rule = f"must be one of {enabled_setting}, which is {','.join(names)}: brokers log in with it"
        raise ConfigError(mechanism_setting, mechanism, rule)


def token_settings(
    settings: ListenerSettings, mechanism: str | None = None, options: Mapping[str, str] | None = None
) -> TokenSettings:
    """Return how signed tokens are checked. options: of the JAAS line, if there is one. Raises ConfigError."""

    def value(name: str) -> Any:
        return settings.value(f"sasl.oauthbearer.{name}", mechanism)

    name, url = settings.lookup(_JWKS_URL, mechanism)
    if not url:
        raise ConfigError(name, None, "must be set because tokens must be signed: a file: or https: URL of a JWKS")
    if (rule := broken_rule(str(url), "file:", "https://", "http://")) is not None:
        raise ConfigError(name, shown(str(url)), rule)
    return TokenSettings(
        jwks_url=str(url),
        audiences=tuple(value("expected.audience") or ()),
        issuer=value("expected.issuer"),
        skew_ms=value("clock.skew.seconds") * 1000,
        principal_claim=value("sub.claim.name"),
        scope_claim=value("scope.claim.name"),
        refresh_ms=value("jwks.endpoint.refresh.ms"),
        retry_backoff_ms=value("jwks.endpoint.retry.backoff.ms"),
        retry_backoff_max_ms=value("jwks.endpoint.retry.backoff.max.ms"),
        tls=TlsSettings.of_texts((options or {}).get),
    )


def _kerberos_settings(settings: ListenerSettings, prefix: str, options: Mapping[str, str]) -> KerberosSettings:
    service_setting: Any = settings.value(_SERVICE_NAME, GSSAPI)
    login: KerberosLogin = _checked(prefix + _JAAS, lambda: KerberosLogin.of_server(options))
    if _checked(prefix + _JAAS, lambda: service_name(options, service_setting)) is None:
        rule = (
            f"must be set because {GSSAPI} is enabled: the first part of the principals of brokers, for example kafka"
        )
        raise ConfigError(_SERVICE_NAME, None, rule)
    name, value = settings.lookup(_LOCAL_RULES, GSSAPI)
    assert isinstance(value, tuple)
    rules = tuple(str(rule) for rule in value)
    try:
        LocalNames(rules, "")
    except KerberosRuleError as error:
        raise ConfigError(name, ",".join(rules), str(error)) from None
    return KerberosSettings(prefix + _JAAS, login.keytab or "", login.principal or "", rules)


def _check_unsecured(options: Mapping[str, str]) -> None:
    lifetime = "unsecuredLoginLifetimeSeconds"
    if not options.get(lifetime, "0").isdecimal():
        raise JaasError(f"the option {lifetime} must be a number of seconds")
    skew = "unsecuredValidatorAllowableClockSkewMs"
    if not options.get(skew, "0").isdecimal():
        raise JaasError(f"the option {skew} must be a number of milliseconds")


def _checked(name: str, check: Callable[[], Any]) -> Any:
    """Return what `check` returns; a JaasError becomes a ConfigError that hides the value."""
    try:
        return check()
    except JaasError as error:
        raise ConfigError(name, HIDDEN, str(error)) from None

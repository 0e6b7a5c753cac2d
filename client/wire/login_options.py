"""The login that a client's SASL options describe: a user with a password, a source of tokens, or Kerberos.

`sasl_jaas_config` is a line as Kafka writes it; its login module must be that of the mechanism. What it contains and
the options of their own exclude each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from client.options import check_choice, refuse
from security.jaas import JaasError, parse_jaas
from security.sasl.gss_context import GSSAPI
from security.sasl.kerberos_login import KerberosLogin, service_name
from security.secret import hides, revealed
from security.tls.settings import TlsSettings

if TYPE_CHECKING:
    from client.wire.security_options import SecurityOptions, TokenProvider

OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, GSSAPI)

PROVIDER: Final = "sasl_oauth_token_provider"
URL: Final = "sasl_oauthbearer_token_endpoint_url"
CLIENT_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
CLIENT_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"
SCOPE: Final = "sasl_oauthbearer_scope"
USERNAME: Final = "sasl_plain_username"
PASSWORD: Final = "sasl_plain_password"
JAAS: Final = "sasl_jaas_config"
SERVICE: Final = "sasl_kerberos_service_name"

_SERVICE_OF_BROKERS: Final = "kafka"

_UNSECURED: Final = "unsecuredLogin"
_EXTENSION: Final = "extension_"


@hides("password")
class PasswordLogin(NamedTuple):
    """A user with a password; or the id of a delegation token with its HMAC."""

    username: str
    password: str
    is_token: bool = False


class ProvidedTokens(NamedTuple):
    """Tokens from a function of the program."""

    provider: TokenProvider


@hides("client_secret", "extensions")
class EndpointTokens(NamedTuple):
    """Tokens from a token endpoint for a client id and its secret.

    extensions: for the broker (KIP-342). tls: of https: URLs; as in Kafka, from the `ssl.*` options of the JAAS line.
    """

    url: str
    client_id: str
    client_secret: str
    scope: str | None
    extensions: Mapping[str, str]
    tls: TlsSettings = TlsSettings()


@hides("options")
class UnsecuredTokens(NamedTuple):
    """Tokens without a signature, for development. options: those of the JAAS line."""

    options: Mapping[str, str]


class KerberosTickets(NamedTuple):
    """Tickets of Kerberos for the brokers, whose principals are `service/host`."""

    login: KerberosLogin
    service: str


Login = PasswordLogin | ProvidedTokens | EndpointTokens | UnsecuredTokens | KerberosTickets


def login_of(options: SecurityOptions) -> Login:
    """Return the login that the options describe. Raises InvalidOptionError for options that do not fit together."""
    mechanism = options.sasl_mechanism
    if mechanism is None:
        raise refuse("sasl_mechanism", None, f"{options.security_protocol} needs one of {', '.join(MECHANISMS)}")
    check_choice("sasl_mechanism", mechanism, MECHANISMS)
    jaas = _jaas_options(options, mechanism)
    if mechanism != GSSAPI:
        _refuse_if_given(options, SERVICE, f"is only for sasl_mechanism {GSSAPI}")
    if mechanism == OAUTHBEARER:
        return _tokens(options, jaas)
    for name in (PROVIDER, URL, CLIENT_ID, CLIENT_SECRET, SCOPE):
        _refuse_if_given(options, name, f"is only for sasl_mechanism {OAUTHBEARER}")
    if mechanism == GSSAPI:
        return _tickets(options, jaas)
    return _password(options, mechanism, jaas)


def _jaas_options(options: SecurityOptions, mechanism: str) -> Mapping[str, str] | None:
    """Return the options of the JAAS line; None if there is no line."""
    if options.sasl_jaas_config is None:
        return None
    try:
        entry = parse_jaas(revealed(options.sasl_jaas_config))
        entry.check_mechanism(mechanism)
    except JaasError as error:
        raise refuse(JAAS, options.sasl_jaas_config, str(error)) from None
    return entry.options


def _password(options: SecurityOptions, mechanism: str, jaas: Mapping[str, str] | None) -> PasswordLogin:
    if jaas is None:
        for name in (USERNAME, PASSWORD):
            value = getattr(options, name)
            if not isinstance(value, str) or not value:
                raise refuse(name, value, f"must be given with sasl_mechanism {mechanism}, or {JAAS} instead")
        return PasswordLogin(options.sasl_plain_username or "", revealed(options.sasl_plain_password or ""))
    for name in (USERNAME, PASSWORD):
        _refuse_if_given(options, name, f"must not be given together with {JAAS}")
    for key in ("username", "password"):
        if not jaas.get(key):
            raise refuse(JAAS, options.sasl_jaas_config, f"must contain {key}")
    is_token = jaas.get("tokenauth", "false").lower() == "true"
    return PasswordLogin(jaas["username"], jaas["password"], is_token)


def _tickets(options: SecurityOptions, jaas: Mapping[str, str] | None) -> KerberosTickets:
    for name in (USERNAME, PASSWORD):
        _refuse_if_given(options, name, f"is not for sasl_mechanism {GSSAPI}: Kerberos knows the user by its ticket")
    service = options.sasl_kerberos_service_name
    try:
        login = KerberosLogin() if jaas is None else KerberosLogin.of_client(jaas)
        return KerberosTickets(login, service_name(jaas or {}, service) or _SERVICE_OF_BROKERS)
    except JaasError as error:
        raise refuse(JAAS, options.sasl_jaas_config, str(error)) from None


def _tokens(options: SecurityOptions, jaas: Mapping[str, str] | None) -> Login:
    for name in (USERNAME, PASSWORD):
        _refuse_if_given(options, name, f"is not for sasl_mechanism {OAUTHBEARER}")
    if options.sasl_oauth_token_provider is not None:
        for name in (URL, CLIENT_ID, CLIENT_SECRET, SCOPE, JAAS):
            _refuse_if_given(options, name, f"must not be given together with {PROVIDER}")
        if not callable(options.sasl_oauth_token_provider):
            raise refuse(PROVIDER, options.sasl_oauth_token_provider, "must be a function that returns a token")
        return ProvidedTokens(options.sasl_oauth_token_provider)
    url = options.sasl_oauthbearer_token_endpoint_url
    jaas = {} if jaas is None else jaas
    if url is not None:
        return _from_endpoint(options, url, jaas)
    for name in (CLIENT_ID, CLIENT_SECRET, SCOPE):
        _refuse_if_given(options, name, f"needs {URL}")
    if any(key.startswith(_UNSECURED) for key in jaas):
        return UnsecuredTokens(jaas)
    raise refuse(URL, None, f"{OAUTHBEARER} needs it, or {PROVIDER}, or unsecuredLogin… options in {JAAS}")


def _from_endpoint(options: SecurityOptions, url: str, jaas: Mapping[str, str]) -> EndpointTokens:
    found: dict[str, str | None] = {}
    for name, key in ((CLIENT_ID, "clientId"), (CLIENT_SECRET, "clientSecret"), (SCOPE, "scope")):
        if key in jaas:
            _refuse_if_given(options, name, f"must not be given together with {key} in {JAAS}")
        found[name] = jaas.get(key, getattr(options, name))
        if not found[name] and name != SCOPE:
            raise refuse(name, None, f"must be given with {URL}, or {key} in {JAAS}")
    extensions = {key[len(_EXTENSION) :]: value for key, value in jaas.items() if key.startswith(_EXTENSION)}
    secret = revealed(found[CLIENT_SECRET] or "")
    tls = TlsSettings.of_texts(jaas.get)
    return EndpointTokens(url, found[CLIENT_ID] or "", secret, found[SCOPE], extensions, tls)


def _refuse_if_given(options: SecurityOptions, name: str, rule: str) -> None:
    value: Any = getattr(options, name)
    if value is not None:
        raise refuse(name, value, rule)

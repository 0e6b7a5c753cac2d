"""From the options of a client to the security of its connections: the TLS context, and the SASL login."""

import random as random_module
import ssl
import time
from collections.abc import Callable, Mapping

from client.errors import InvalidOptionError
from client.options import refuse
from client.wire.connection_security import ConnectionSecurity
from client.wire.login_options import (
    JAAS,
    EndpointTokens,
    KerberosTickets,
    PasswordLogin,
    ProvidedTokens,
    UnsecuredTokens,
    login_of,
)
from client.wire.oauth_tokens import TokenEndpoint, TokenSource, program_tokens
from client.wire.sasl_login import NewExchange, SaslLogin
from client.wire.security_options import SecurityOptions
from security.sasl.client_exchange import ClientExchange
from security.sasl.gss_context import GSSAPI
from security.sasl.oauthbearer_client import OAuthBearerClient
from security.sasl.plain_client import PlainClient
from security.sasl.scram import SCRAM_MECHANISMS
from security.sasl.scram_client import ScramClient
from security.sasl.unsecured_login import unsecured_extensions, unsecured_token


def connection_security(options: SecurityOptions, random: random_module.Random) -> ConnectionSecurity:
    """Return the security of a client's connections. It reads the stores. Raises InvalidOptionError."""
    login = sasl_login(options, random) if options.has_login else None
    return ConnectionSecurity(_tls(options) if options.has_tls else None, login)


def sasl_login(options: SecurityOptions, random: random_module.Random) -> SaslLogin:
    """Return the login of options that have one. Raises InvalidOptionError."""
    mechanism = options.sasl_mechanism or ""
    login = login_of(options)
    return SaslLogin(
        mechanism, _tickets(login) if isinstance(login, KerberosTickets) else _exchanges(mechanism, login), random
    )


def _tls(options: SecurityOptions) -> Callable[[], ssl.SSLContext]:
    context = options.ssl_context
    if context is None:
        # These read certificates and keys: a client without TLS must not wait for their imports.
        from security.tls.contexts import client_context
        from security.tls.errors import TlsConfigError
        from security.tls.settings import TlsSettings

        try:
            context = client_context(TlsSettings.of_texts(lambda name: getattr(options, name.replace(".", "_"), None)))
        except TlsConfigError as error:
            option = error.setting.replace(".", "_")
            raise InvalidOptionError(option, f"{option}: {error.rule}") from error
    return lambda: context


def _tickets(login: KerberosTickets) -> NewExchange:
    try:
        from client.wire.kerberos_tickets import TicketSource  # gssapi is optional
    except ImportError as error:
        rule = "needs the Python package gssapi and MIT's Kerberos: install ottla with the extra 'kerberos'"
        raise refuse("sasl_mechanism", GSSAPI, f"{rule} ({error})") from None
    return TicketSource(login).exchange


def _exchanges(mechanism: str, login: PasswordLogin | ProvidedTokens | EndpointTokens | UnsecuredTokens) -> NewExchange:
    """Return the function that makes the exchange of each login."""
    if isinstance(login, PasswordLogin):
        username, password, is_token = login

        async def with_password(host: str) -> ClientExchange:
            if mechanism == "PLAIN":
                return PlainClient(username, password)
            return ScramClient(SCRAM_MECHANISMS[mechanism], username, password, is_token=is_token)

        return with_password
    if isinstance(login, UnsecuredTokens):
        claims = login.options

        async def with_unsecured_token(host: str) -> ClientExchange:
            return OAuthBearerClient(unsecured_token(claims, time.time()), unsecured_extensions(claims))

        return with_unsecured_token
    extensions: Mapping[str, str] = login.extensions if isinstance(login, EndpointTokens) else {}
    tokens: TokenSource = (
        TokenEndpoint(login, _endpoint_tls(login)).token
        if isinstance(login, EndpointTokens)
        else program_tokens(login.provider)
    )

    async def with_token(host: str) -> ClientExchange:
        return OAuthBearerClient(await tokens(), extensions)

    return with_token


def _endpoint_tls(login: EndpointTokens) -> ssl.SSLContext | None:
    """Return the context of connections to a token endpoint; None if it has no TLS. Raises InvalidOptionError."""
    if not login.url.lower().startswith("https:"):
        return None
    from security.tls.contexts import client_context  # as above
    from security.tls.errors import TlsConfigError

    try:
        return client_context(login.tls)
    except TlsConfigError as error:
        raise InvalidOptionError(JAAS, f"{JAAS}: {error}") from None

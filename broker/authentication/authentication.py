"""SASL on all listeners of a broker: makes the mechanisms from the settings and the parts that know the users."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from broker.authentication.listener import ListenerAuthentication
from broker.authentication.scram_credentials import ScramCredentials
from broker.authentication.settings import OAUTHBEARER, PLAIN, KerberosSettings, MechanismSettings, sasl_settings
from broker.authentication.step_threads import StepThreads
from broker.authentication.token_validators import TokenValidators
from broker.authentication.tokens import DelegationTokens
from broker.errors import BrokerStartError
from broker.requests.dispatcher import Dispatcher
from broker.settings.config import BrokerConfig
from security.sasl.gss_context import KerberosError
from security.sasl.gssapi_server import GssapiServer
from security.sasl.kerberos_names import DEFAULT_RULE, LocalNames
from security.sasl.oauthbearer_server import OauthBearerServer, ValidateToken
from security.sasl.plain_server import PlainServer, PlainUsers
from security.sasl.scram import SCRAM_MECHANISMS, new_nonce
from security.sasl.scram_server import ScramServer
from security.sasl.server import NewSaslServer
from security.sasl.unsecured_tokens import UnsecuredTokens

logger = logging.getLogger(__name__)


class Authentication:
    """The authentication of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        credentials: ScramCredentials,
        tokens: DelegationTokens,
        now_ms: Callable[[], int],
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        """now_ms: the clock of tokens. nonce: a random text for an exchange of SCRAM."""
        self._config = config
        self._nonce = nonce
        self._credentials = credentials
        self._tokens = tokens
        self._now_ms = now_ms
        self._validators = TokenValidators(now_ms)
        self._threads = StepThreads()

    def of(self, listener: str, dispatcher: Dispatcher) -> ListenerAuthentication:
        """Return the authentication of one listener. Raises BrokerStartError."""
        settings = sasl_settings(self._config.of_listener(listener))
        return ListenerAuthentication(
            settings,
            {name: self._mechanism(one) for name, one in settings.mechanisms.items()},
            dispatcher,
            failure_delay_s=self._config.connection_failed_authentication_delay_ms / 1000,
            now_ms=self._now_ms,
            step_elsewhere=self._threads.step,
        )

    async def start(self) -> None:
        """Read the key sets of token issuers. Raises BrokerStartError."""
        await self._validators.start()

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work to run while the broker serves."""
        return [self._threads.run(), *self._validators.services()]

    def _mechanism(self, settings: MechanismSettings) -> NewSaslServer:
        if settings.name == PLAIN:
            return partial(PlainServer, PlainUsers(settings.options))
        if settings.name == OAUTHBEARER:
            return partial(OauthBearerServer, self._token_validator(settings))
        if settings.kerberos is not None:
            return _gssapi(settings.kerberos)
        mechanism = SCRAM_MECHANISMS[settings.name]
        return partial(ScramServer, mechanism, self._credentials.of(mechanism), self._tokens.of(mechanism), self._nonce)

    def _token_validator(self, settings: MechanismSettings) -> ValidateToken:
        if settings.tokens is None:
            return UnsecuredTokens(settings.options, self._now_ms).validate
        return self._validators.of(settings.tokens)


def _gssapi(settings: KerberosSettings) -> NewSaslServer:
    try:
        from security.sasl.kerberos import Acceptor, default_realm  # gssapi is optional
    except ImportError as error:
        raise BrokerStartError(
            "GSSAPI needs the Python package gssapi and MIT's Kerberos: install ottla with the extra 'kerberos' "
            f"({error})"
        ) from None
    try:
        acceptor = Acceptor(settings.keytab, settings.principal)
    except KerberosError as error:
        raise BrokerStartError(
            f"{settings.jaas_setting}: the keytab {settings.keytab} must be readable and contain the key of "
            f"{settings.principal}: {error}"
        ) from None
    realm = default_realm()
    if not realm and DEFAULT_RULE in settings.rules:
        logger.warning("krb5.conf has no default_realm: the rule %s makes users of no principals", DEFAULT_RULE)
    names = LocalNames(settings.rules, realm)
    return lambda: GssapiServer(acceptor.context(), names)

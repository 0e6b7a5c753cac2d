"""The authorizer that the settings name, and the handlers behind the rules of their APIs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from broker.authorization.access import Access
from broker.authorization.authorizer import Authorizer
from broker.authorization.registry_authorizer import RegistryAuthorizer
from broker.authorization.rule import Gate
from broker.authorization.rules import RULES, SENT_BY_BROKERS
from broker.errors import BrokerStartError
from broker.requests.api_table import Api
from broker.requests.between_brokers import BetweenBrokers
from broker.requests.handler import AnyHandler
from broker.services import Services
from broker.settings.checks import ACL_AUTHORIZER
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from protocol.api_keys import ApiKey
from registry.interface import Registry
from security.acls.decision import parse_super_users


def load_access(config: BrokerConfig, registry: Registry, now_ms: Callable[[], int], backoff: Backoff) -> Access | None:
    """Make the authorizer of the settings; None if they name none. Raises BrokerStartError."""
    if config.ottla_authorizer:
        return Access(_imported(config.ottla_authorizer, config))
    if config.authorizer_class_name != ACL_AUTHORIZER:
        return None
    authorizer = RegistryAuthorizer(
        config.static,
        registry,
        parse_super_users(config.super_users),
        allows_without_acls=config.allow_everyone_if_no_acl_found,
        now_ms=now_ms,
        backoff=backoff,
    )
    return Access(authorizer)


def _imported(path: str, config: BrokerConfig) -> Authorizer:
    """Import `module:Class` and make its object. Raises BrokerStartError that names the setting."""
    where = f"ottla.authorizer={path}"
    module_name, colon, class_name = path.partition(":")
    if not (module_name and colon and class_name):
        raise BrokerStartError(f"{where}: must be an import path, module:Class")
    try:
        found = getattr(import_module(module_name), class_name)
    except Exception as error:
        raise BrokerStartError(f"{where}: cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Authorizer)):
        raise BrokerStartError(f"{where}: must be a subclass of ottla.authorizer.Authorizer")
    try:
        return found(config.static)
    except Exception as error:
        raise BrokerStartError(f"{where}: the authorizer cannot be made: {type(error).__name__}") from error


def guarded(api: Api, services: Services) -> AnyHandler:
    """Return the handler of an API: behind its rule if there is an authorizer.

    Without an authorizer, what only brokers send is answered only on the listeners between brokers. Raises KeyError for
    an API without a rule.
    """
    handler = api.handler(services)
    rule = RULES[ApiKey(api.key)]
    if services.access is not None:
        return rule.guard(handler, Gate(services.access, services, api.name))
    if api.key in SENT_BY_BROKERS:
        return BetweenBrokers(api.name, handler, services.config.trusted_listener_names)
    return handler

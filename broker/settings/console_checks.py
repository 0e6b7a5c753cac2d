"""Rules about the settings of the console: none may only look safe."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from broker.settings.listener_settings import CONSOLE_PREFIX
from storage.setting import ConfigError

if TYPE_CHECKING:
    from broker.settings.config import BrokerConfig

_LISTENER: Final = f"{CONSOLE_PREFIX}listener"
_TLS_PREFIX: Final = f"{CONSOLE_PREFIX}ssl."
_METHODS: Final = f"{CONSOLE_PREFIX}authentication"
_REGISTRY_URL: Final = f"{CONSOLE_PREFIX}schema.registry.url"
_REGISTRY_USER: Final = f"{CONSOLE_PREFIX}schema.registry.basic.auth.user.info"
OPEN_TO_ALL: Final = (
    "everybody who reaches this address could read the console: set ottla.console.authentication; if everybody may "
    "read it, set ottla.console.open to read or metrics"
)
"""The rule that a console breaks that is on a network and has no login."""

FULL: Final = "full"
READ_ONLY: Final = "read-only"
OFF: Final = "off"
"""Values of ottla.console.mode."""
CHANGED_BY_ALL: Final = (
    f"everybody who reaches {_LISTENER} could change the cluster: set {_METHODS}, or use a loopback address"
)
"""The rule that such a console breaks if it is not read-only."""


def check_console(config: BrokerConfig) -> None:
    """Raise ConfigError for the first broken rule."""
    _check_schema_registry(config)
    if config.ottla_console_listener is not None:
        _check_tls(config)
        _check_logins(config)
        _check_open(config)


def _check_schema_registry(config: BrokerConfig) -> None:
    urls = config.ottla_console_schema_registry_url
    for url in urls:
        try:
            parsed = urlsplit(url)
        except ValueError:
            parsed = urlsplit("")
        if "@" in parsed.netloc:  # the value is not shown: it has a password
            raise ConfigError(_REGISTRY_URL, None, f"must not have a user and a password: {_REGISTRY_USER} is for them")
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise ConfigError(_REGISTRY_URL, url, "must be URLs such as http://127.0.0.1:8081")
    user_info = config.ottla_console_schema_registry_basic_auth_user_info
    if user_info and not urls:
        raise ConfigError(_REGISTRY_USER, None, f"has no effect without {_REGISTRY_URL}")
    if user_info and ":" not in user_info:
        raise ConfigError(_REGISTRY_USER, None, "must be user:password")


def _check_tls(config: BrokerConfig) -> None:
    settings = config.of_console()
    if config.console_has_tls:
        if not (settings.value("ssl.keystore.location") or settings.value("ssl.keystore.key")):
            rule = f"must be set because {_LISTENER} has https://"
            raise ConfigError(f"{_TLS_PREFIX}keystore.location", None, rule)
        return
    check_has_effect(config.static)  # not dynamic ones: all others would be dropped with them


def check_has_effect(names: Iterable[str]) -> None:
    """Raise ConfigError if one of the names is a setting of TLS; for a console without TLS."""
    given = next((name for name in sorted(names) if name.startswith(_TLS_PREFIX)), None)
    if given is not None:
        raise ConfigError(given, None, f"has no effect without TLS: begin {_LISTENER} with https://")


def _check_logins(config: BrokerConfig) -> None:
    methods = config.ottla_console_authentication
    if methods and "read" in (config.ottla_console_open or ()):
        rule = f"everybody could read without a login, and {_METHODS} would have no effect: remove one of the two"
        raise ConfigError(f"{CONSOLE_PREFIX}open", ",".join(config.ottla_console_open or ()), rule)
    for method, name, value in (
        ("password-file", f"{CONSOLE_PREFIX}password.file", config.ottla_console_password_file),
        ("token-file", f"{CONSOLE_PREFIX}token.file", config.ottla_console_token_file),
    ):
        if method in methods and not value:
            raise ConfigError(name, None, f"must be set because {_METHODS} has {method}")
        if value and method not in methods:
            raise ConfigError(name, value, f"has no effect: {_METHODS} does not have {method}")
    if "oauthbearer" in methods:
        from broker.authentication.settings import token_settings  # only consoles with signed tokens need it

        token_settings(config.of_console())
    elif tokens := [name for name in sorted(config.static) if name.startswith(f"{CONSOLE_PREFIX}sasl.")]:
        raise ConfigError(tokens[0], None, f"has no effect: {_METHODS} does not have oauthbearer")
    if "certificate" in methods and config.of_console().value("ssl.client.auth") == "none":
        rule = f"must be requested or required, with {_LISTENER}=https://…, because {_METHODS} has certificate"
        raise ConfigError(f"{_TLS_PREFIX}client.auth", None, rule)


def _check_open(config: BrokerConfig) -> None:
    address = config.ottla_console_listener
    if address is None or is_loopback(address.host):
        return
    if config.ottla_console_authentication:
        if not config.console_has_tls:
            config.warnings.append(
                f"{_LISTENER}={address}: passwords and tokens are sent in plain text; begin it with https://, unless "
                "only a proxy that speaks TLS reaches it"
            )
    elif config.ottla_console_mode == FULL:
        raise ConfigError(f"{CONSOLE_PREFIX}mode", FULL, CHANGED_BY_ALL)
    elif config.ottla_console_open is None:
        raise ConfigError(_LISTENER, config.values[_LISTENER], OPEN_TO_ALL)


def is_loopback(host: str) -> bool:
    """Return whether a host of the settings is this machine's loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

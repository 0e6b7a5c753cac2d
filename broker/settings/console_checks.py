"""Rules about the settings of the console: none may only look safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.settings.listener_settings import CONSOLE_PREFIX
from storage.setting import ConfigError

if TYPE_CHECKING:
    from broker.settings.config import BrokerConfig

_LISTENER = f"{CONSOLE_PREFIX}listener"
_TLS_PREFIX = f"{CONSOLE_PREFIX}ssl."


def check_console(config: BrokerConfig) -> None:
    """Raise ConfigError for the first broken rule."""
    if config.ottla_console_listener is not None:
        _check_tls(config)


def _check_tls(config: BrokerConfig) -> None:
    settings = config.of_console()
    if config.console_has_tls:
        if not (settings.value("ssl.keystore.location") or settings.value("ssl.keystore.key")):
            rule = f"must be set because {_LISTENER} has https://"
            raise ConfigError(f"{_TLS_PREFIX}keystore.location", None, rule)
        return
    given = next((name for name in sorted(config.prefixed) if name.startswith(_TLS_PREFIX)), None)
    if given is not None:
        raise ConfigError(given, None, f"has no effect without TLS: begin {_LISTENER} with https://")

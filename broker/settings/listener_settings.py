"""The settings of one listener: those with its prefix override the broker's.

`listener.name.<listener>.<setting>`, with the listener's name in lower case, is for one listener;
`listener.name.<listener>.<mechanism>.<setting>` for one SASL mechanism of it. The console is a listener of HTTP, whose
settings of TLS and of tokens have the prefix `ottla.console.`.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.settings.catalog import BROKER_SETTINGS
from broker.settings.names import LISTENER_PREFIX
from storage.setting import SettingValue

CONSOLE_PREFIX = "ottla.console."
_OF_CONSOLE = ("ssl.", "sasl.oauthbearer.")


class ListenerSettings:
    """Values by Kafka's names, as one listener sees them."""

    def __init__(self, name: str, values: Mapping[str, SettingValue], prefixed: Mapping[str, SettingValue]) -> None:
        """name: of the listener. values: the broker's. prefixed: those of all listeners, by their full names."""
        self.prefix = f"{LISTENER_PREFIX}{name.lower()}."
        self._values = values
        self._prefixed = prefixed

    def value(self, setting: str, mechanism: str | None = None) -> SettingValue:
        """Return the most specific value: of the mechanism, of the listener, of the broker. Raises KeyError."""
        return self.lookup(setting, mechanism)[1]

    def lookup(self, setting: str, mechanism: str | None = None) -> tuple[str, SettingValue]:
        """Return the full name of the setting that decides, and its value: errors name what the user has written."""
        names = [f"{self.prefix}{setting}"]
        if mechanism is not None:
            names.insert(0, f"{self.prefix}{mechanism.lower()}.{setting}")
        for name in names:
            if name in self._prefixed:
                return name, self._prefixed[name]
        return setting, self._values[setting]


class ConsoleSettings(ListenerSettings):
    """Values as the console sees them: those with its prefix override the broker's.

    Only `ottla.console.ssl.client.auth` makes the console ask for certificates: browsers have none, so the broker's
    value is for its listeners only.
    """

    def __init__(self, values: Mapping[str, SettingValue], prefixed: Mapping[str, SettingValue]) -> None:
        super().__init__("", values, prefixed)
        self.prefix = CONSOLE_PREFIX

    def lookup(self, setting: str, mechanism: str | None = None) -> tuple[str, SettingValue]:
        """See `ListenerSettings`."""
        name, value = super().lookup(setting, mechanism)
        return (self.prefix + name, "none") if name == "ssl.client.auth" else (name, value)


def is_of_console(name: str) -> bool:
    """Return whether a name is that of a setting of TLS or of tokens with the console's prefix."""
    base = name.removeprefix(CONSOLE_PREFIX)
    return base != name and base.startswith(_OF_CONSOLE) and base in BROKER_SETTINGS


def is_prefixed(name: str) -> bool:
    """Return whether a name has the prefix of a listener, or is one of the console's."""
    return name.startswith(LISTENER_PREFIX) or is_of_console(name)


def base_name(name: str) -> str:
    """Return the setting in `listener.name.<listener>.<setting>` (or `...<listener>.<mechanism>.<setting>`).

    For a setting of the console, that in `ottla.console.<setting>`.
    """
    if is_of_console(name):
        return name.removeprefix(CONSOLE_PREFIX)
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name[len(LISTENER_PREFIX) :].partition(".")[2]
    while base and base not in BROKER_SETTINGS and "." in base:
        shorter = base.partition(".")[2]
        if shorter in BROKER_SETTINGS:
            return shorter
        base = shorter
    return base

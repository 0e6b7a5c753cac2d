"""Checks of the options that a user passes; every refusal names the option, the value and the rule."""

from collections.abc import Sequence
from typing import Final

from client.errors import InvalidOptionError

DEFAULT_PORT: Final = 9092
UNSET: Final = -1


def refuse(option: str, value: object, rule: str) -> InvalidOptionError:
    """The error for a bad value, ready to raise."""
    return InvalidOptionError(option, f"{option}={value!r}: {rule}")


def check_range(option: str, value: float, low: float, high: float | None = None) -> None:
    """Raise InvalidOptionError unless `value` is a number from `low` to `high` (None: no upper bound)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse(option, value, "must be a number")
    if value < low or (high is not None and value > high):
        raise refuse(option, value, f"must be at least {low}" if high is None else f"must be from {low} to {high}")


def check_choice(option: str, value: object, choices: Sequence[object]) -> None:
    """Raise InvalidOptionError unless `value` is one of `choices`."""
    if value not in choices:
        raise refuse(option, value, "must be one of " + ", ".join(map(str, choices)))


def parse_bootstrap_servers(value: str | Sequence[str]) -> list[tuple[str, int]]:
    """Hosts and ports of "host:port,host:port" or a list of such; port 9092 where there is none.

    An IPv6 address stands in brackets: "[::1]:9092". Raises InvalidOptionError.
    """
    option = "bootstrap_servers"
    texts = value.split(",") if isinstance(value, str) else list(value)
    servers = []
    for text in (part.strip() for part in texts):
        if not text:
            continue
        host, port = _split_host(text)
        if not host:
            raise refuse(option, text, "must be host:port")
        if not port:
            port = str(DEFAULT_PORT)
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise refuse(option, text, "the port must be a number from 1 to 65535")
        servers.append((host, int(port)))
    if not servers:
        raise refuse(option, value, "must name at least one host:port")
    return servers


def _split_host(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port

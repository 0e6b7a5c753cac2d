"""max.connections.per.ip.overrides with names of hosts: a name stands for its first address, as in Kafka.

Names are looked up when the listeners are bound and when the setting changes, not later. Java takes an IPv4 address
before an IPv6 address, if a host has both.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping

from security.addresses import is_address, normal_address
from storage.setting import ConfigError

logger = logging.getLogger(__name__)

SETTING = "max.connections.per.ip.overrides"


class HostLimits:
    """The limits of hosts. `by_address`: the limits to use, which change after the setting if there are names in it."""

    def __init__(self) -> None:
        self.by_address: Mapping[str, int] = {}
        self._wanted: Mapping[str, int] = {}

    async def use(self, limits: Mapping[str, int]) -> None:
        """Take the limits of the setting, by address or name. Raises ConfigError for a name without an address."""
        self._wanted = limits
        found = {host if is_address(host) else await _address(host): limit for host, limit in limits.items()}
        if self._wanted is limits:  # else the setting has changed again
            self.by_address = found

    def changed(
        self, limits: Mapping[str, int], start: Callable[[Awaitable[None]], object], use: Callable[[], None]
    ) -> None:
        """Take changed limits: addresses at once, names in a task of `start`, which then calls `use`.

        If a name has no address, the limits before the change stay.
        """
        if limits == self._wanted:
            return
        if all(map(is_address, limits)):
            self._wanted = self.by_address = limits
            return

        async def look_up() -> None:
            try:
                await self.use(limits)
            except ConfigError as error:
                logger.error("the limits before this change stay: %s", error)
            else:
                use()

        start(look_up())


async def _address(name: str) -> str:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: an empty or too long part
        raise ConfigError(SETTING, name, f"the name has no address: {getattr(error, 'strerror', error)}") from None
    first = min(found, key=lambda one: one[0] != socket.AF_INET)  # the first of IPv4 before the first of IPv6
    return normal_address(str(first[4][0]))

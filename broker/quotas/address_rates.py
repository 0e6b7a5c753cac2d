"""Quotas of new connections by address (KIP-612): `connection_creation_rate` of the configs under `/config/ips`.

A config may name a host instead of an address: its addresses are looked up when the config is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address

from broker.quotas.client_quotas import CONNECTION_CREATION_RATE, PRUNE_AT, quota_values
from broker.quotas.entities import IP, entity_of
from broker.quotas.rates import SampledRate, Window
from broker.settings.entities import IPS
from security.addresses import normal_address

logger = logging.getLogger(__name__)

Lookup = Callable[[str], Awaitable[list[str]]]
"""Returns the addresses of a host. Raises OSError."""


async def look_up(host: str) -> list[str]:
    """Return the addresses of a host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None)
    return [str(address[0]) for *_, address in found]


class AddressRates:
    """The rates of new connections of all addresses. Subscribed to `EntityConfigs`."""

    def __init__(self, window: Window, now_s: Callable[[], float], lookup: Lookup = look_up) -> None:
        self.is_active = False
        """Whether any address has a quota."""
        self._window = window
        self._now_s = now_s
        self._lookup = lookup
        self._quotas: dict[str | None, float] = {}  # by name; None is the default
        self._by_address: dict[str, float] = {}
        self._rates: dict[str, SampledRate] = {}
        self._prune_at = PRUNE_AT
        self._changed = asyncio.Event()

    def config_changed(self, path: str, config: Mapping[str, str]) -> None:
        """Apply a changed config; see `EntityConfigs.subscribe`."""
        if not path.startswith(f"{IPS}/"):
            return
        name = entity_of(path)[IP]
        quota = quota_values(path, config, (CONNECTION_CREATION_RATE,)).get(CONNECTION_CREATION_RATE)
        if quota is None:
            self._quotas.pop(name, None)
        else:
            self._quotas[name] = quota
        self._by_address = {
            normal_address(one): rate for one, rate in self._quotas.items() if one is not None and _is_address(one)
        }
        self.is_active = bool(self._quotas)
        self._changed.set()  # names of hosts are to be looked up

    def throttle_s(self, address: str) -> float:
        """Count a new connection; return how long to hold it before it is closed, 0 if it is allowed.

        One that is not allowed does not count.
        """
        address = normal_address(address)
        quota = self._by_address.get(address, self._quotas.get(None))
        if quota is None:
            return 0.0
        rate = self._rates.get(address)
        if rate is None:
            self._prune()
            rate = self._rates[address] = SampledRate(self._window, quota)
        rate.quota = quota
        throttle_s = rate.record(1, self._now_s())
        if not throttle_s:
            return 0.0
        rate.take_back(1)
        return min(throttle_s, self._window.sample_s)

    async def run(self) -> None:
        """Look up the names of hosts that have a quota, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for name, quota in list(self._quotas.items()):
                if name is not None and not _is_address(name):
                    await self._add_host(name, quota)

    async def _add_host(self, name: str, quota: float) -> None:
        try:
            addresses = await self._lookup(name)
        except (OSError, UnicodeError) as error:
            logger.warning("%s of %s has no effect: its address is unknown: %s", CONNECTION_CREATION_RATE, name, error)
            return
        if name in self._quotas:
            for address in addresses:
                self._by_address.setdefault(normal_address(address), quota)

    def _prune(self) -> None:
        """Remove the rates of addresses that have not connected for a while, from time to time."""
        if len(self._rates) < self._prune_at:
            return
        now_s = self._now_s()
        self._rates = {address: rate for address, rate in self._rates.items() if not rate.is_idle(now_s)}
        self._prune_at = max(PRUNE_AT, 2 * len(self._rates))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

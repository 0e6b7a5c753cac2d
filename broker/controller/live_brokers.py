"""The live brokers: the registrations under /brokers/ids, as the controller reads them.

Each registration is watched, too: a broker may change its addresses without a new registration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.controller.context import LiveBroker
from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Registry, Watch
from registry.pipeline import read_all
from registry.znodes.brokers import BrokerIdsZnode, BrokerZnode

logger = logging.getLogger(__name__)


class LiveBrokers:
    """Reads the registrations."""

    def __init__(self, registry: Registry, changed: Callable[[], None]) -> None:
        """changed: makes the controller call `read` again."""
        self._registry = registry
        self._changed = changed
        self._watches: dict[str, Watch] = {}

    def clear(self) -> None:
        """End the term: remove the watches."""
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()

    async def read(self) -> dict[int, LiveBroker]:
        """Return the live brokers by id. Invalid registrations are logged and ignored."""
        names = await self._registry.children(BrokerIdsZnode.TEMPLATE)
        for removed in self._watches.keys() - set(names):
            self._watches.pop(removed).cancel()
        for name in names:
            if name not in self._watches:
                self._watches[name] = self._registry.watch_data(f"{BrokerIdsZnode.TEMPLATE}/{name}", self._changed)
        brokers = await read_all(self._read, names)
        return {broker.id: broker for broker in brokers if broker is not None}

    async def _read(self, name: str) -> LiveBroker | None:
        path = f"{BrokerIdsZnode.TEMPLATE}/{name}"
        try:
            broker_id = int(name)
            data, stat = await self._registry.get(path)
            return LiveBroker(broker_id, stat.czxid, BrokerZnode.decode(data, path))
        except NoNodeError:
            return None  # removed meanwhile
        except ZnodeFormatError as error:
            logger.error("a broker's registration is ignored: %s", error)
        except ValueError:
            logger.error("a broker's registration is ignored: %s: %r is not a broker id", path, name)
        return None

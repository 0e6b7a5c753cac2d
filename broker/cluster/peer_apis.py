"""Which APIs the other registered brokers serve, as their ApiVersions says.

Some APIs are useful only if every broker has them: a group can move to any broker with its coordinator. The broker
reads the registrations at the start and after each change of them, and asks each new registration once, over the
inter-broker listener. Until a broker has answered, its last answer counts; a broker that has never answered counts as
one that serves everything, so that a start of the whole cluster does not hide APIs for a moment.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from broker.controller.context import LiveBroker
from broker.controller.live_brokers import LiveBrokers
from client.errors import KafkaError
from client.wire.backoff import Backoff, Retries
from client.wire.node_connection import ConnectionOptions
from protocol.api_keys import ApiKey
from protocol.host_port import HostPort
from registry.errors import ConnectionLossError, SessionExpiredError
from registry.interface import Registry
from registry.znodes.brokers import BrokerIdsZnode

logger = logging.getLogger(__name__)


class _Answer(NamedTuple):
    """The API keys that a broker announced; `epoch` is that of its registration."""

    epoch: int
    keys: frozenset[int]


class PeerApis:
    """Asks the other brokers for their APIs. `run` must be running."""

    def __init__(
        self, broker_id: int, registry: Registry, listener_name: str, options: ConnectionOptions, backoff: Backoff
    ) -> None:
        """listener_name: the inter-broker listener. options: how to connect to it; must negotiate."""
        self._broker_id = broker_id
        self._registry = registry
        self._listener_name = listener_name
        self._options = options
        self._backoff = backoff
        self._answers: dict[int, _Answer] = {}
        self._changed = asyncio.Event()

    def brokers_without(self, *apis: ApiKey) -> list[int]:
        """Return the ids of the other registered brokers that do not serve all of these APIs."""
        wanted = set(apis)
        return sorted(broker for broker, answer in self._answers.items() if not wanted <= answer.keys)

    def read_again(self) -> None:
        """Read the registrations again: they may have changed unseen."""
        self._changed.set()

    async def run(self) -> None:
        """Ask each new registration until cancelled."""
        live = LiveBrokers(self._registry, self.read_again)
        watch = self._registry.watch_children(BrokerIdsZnode.TEMPLATE, self.read_again)
        retries = Retries(self._backoff)
        try:
            while True:
                self._changed.clear()
                if await self._ask_all(live, retries):
                    retries.succeeded()
                    await self._changed.wait()
                else:
                    await retries.wait()
        finally:
            watch.cancel()
            live.clear()

    async def _ask_all(self, live: LiveBrokers, retries: Retries) -> bool:
        """Ask every registration that has not answered. Return False if one could not be asked."""
        try:
            brokers = await live.read()
        except (ConnectionLossError, SessionExpiredError) as error:
            logger.debug("cannot read the registrations of the other brokers yet: %s", error)
            return False
        for gone in self._answers.keys() - brokers.keys():
            del self._answers[gone]
        new = [one for one in brokers.values() if one.id != self._broker_id and not self._has_answered(one)]
        return all(await asyncio.gather(*(self._ask(one, retries) for one in new)))

    def _has_answered(self, broker: LiveBroker) -> bool:
        answer = self._answers.get(broker.id)
        return answer is not None and answer.epoch == broker.epoch

    async def _ask(self, broker: LiveBroker, retries: Retries) -> bool:
        for endpoint in broker.znode.endpoints:
            if endpoint.listener == self._listener_name:
                break
        else:
            logger.log(
                retries.log_level(logging.WARNING), "broker %d has no listener %s", broker.id, self._listener_name
            )
            return True  # it has to register again
        try:
            connection = await self._options.open(HostPort(endpoint.host or "", endpoint.port))
        except KafkaError as error:
            logger.log(retries.log_level(logging.INFO), "cannot ask broker %d for its APIs yet: %s", broker.id, error)
            return False
        self._answers[broker.id] = _Answer(broker.epoch, frozenset(connection.api_versions))
        await connection.close()
        return True

"""A broker's registration, over one registry session after another.

A lost connection changes nothing: the registration still exists, and the broker goes on serving. If the session has
expired, the controller has declared the broker dead, and other brokers lead its partitions. The broker then opens a new
session, keeps its token as a proof for later restarts, and registers again. The new registration has another czxid, so
the controller treats the broker as restarted and sends it all states. Until then, requests with the old broker epoch
are refused, so the leaders on this broker change no ISR.

Kafka does the same. If another broker has taken the id meanwhile, this broker stops with an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from broker.cluster.registration import ClusterMembership
from broker.cluster.registry_access import RegistryAccess
from broker.network.listener import Listener
from client.wire.backoff import Backoff, Retries
from registry.errors import ConnectionLossError, RegistryFullError, SessionExpiredError
from registry.interface import ConnectionState

logger = logging.getLogger(__name__)


class ClusterSession:
    """One broker's registration: created at the start, and again in each new session."""

    def __init__(
        self,
        broker_id: int,
        access: RegistryAccess,
        membership: ClusterMembership,
        directories: Sequence[str],
        backoff: Backoff,
    ) -> None:
        """directories: keep the session's token."""
        self._broker_id = broker_id
        self._access = access
        self._registry = access.registry
        self._membership = membership
        self._directories = list(directories)
        self._backoff = backoff
        self._listeners: Sequence[Listener] = ()
        self._expired = asyncio.Event()
        self._registry.listen(self._state_changed)

    def _state_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.EXPIRED:
            self._expired.set()

    async def check_id_is_free(self) -> None:
        """Raise BrokerStartError if another broker has this id. A session of an earlier run is ended."""
        await self._membership.check_id_is_free(
            self._broker_id, lambda session_id: self._access.end_own_session(session_id, self._directories)
        )

    def remember(self) -> None:
        """Keep the proof that this session is this broker's. Call it before anything is registered in the session."""
        self._access.remember_session(self._directories)

    async def register(self, listeners: Sequence[Listener]) -> int:
        """Register for the first time, with these advertised listeners. Return the broker epoch."""
        self._listeners = list(listeners)
        return await self._membership.register(self._broker_id, self._listeners)

    async def run(self, on_registered: Callable[[int], Awaitable[None]]) -> None:
        """Register again each time that the session has expired, until cancelled.

        on_registered: called with the broker epoch of each new registration. Until it returns, the session does not
        count as restored.

        Raises BrokerStartError if another broker has taken the id; and errors after which the registry is unusable.
        """
        retries = Retries(self._backoff)
        while True:
            await self._expired.wait()
            logger.warning("the registry session has expired: broker %d registers again", self._broker_id)
            try:
                epoch = await self._rejoin(on_registered)
            except (ConnectionLossError, SessionExpiredError, RegistryFullError) as error:
                logger.warning("broker %d is not registered: %s; retrying", self._broker_id, error)
                await retries.wait()
                continue
            retries.succeeded()
            logger.info("broker %d is registered again, with broker epoch %d", self._broker_id, epoch)

    async def _rejoin(self, on_registered: Callable[[int], Awaitable[None]]) -> int:
        if self._registry.state is ConnectionState.EXPIRED:
            await self._registry.start()
        self._expired.clear()  # before the first call in the new session: it may expire, too
        try:
            await self.check_id_is_free()
            self.remember()
            epoch = await self._membership.register(self._broker_id, self._listeners)
            await on_registered(epoch)
        except BaseException:
            self._expired.set()
            raise
        return epoch

"""A broker's place in the cluster, over the sessions of its registry.

A lost connection changes nothing: the registration is still there, and the broker goes on serving. When the session has
expired the broker has been taken for dead: others lead what it led. It opens a new session, proves itself to its later
lives by that session's token, and registers anew; with the new registration's czxid the controller takes it for a
broker that has been restarted, and tells it everything. Until that is done nothing that names the old broker epoch is
obeyed, so the leaders here change no ISR.

Kafka does the same. Who has taken the id meanwhile, if anybody, is right: the broker ends then, and says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from broker.cluster.registration import ClusterMembership
from broker.cluster.registry_access import RegistryAccess
from broker.network.listener import Listener
from registry.errors import ConnectionLossError, RegistryFullError, SessionExpiredError
from registry.interface import ConnectionState

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.2


class ClusterSession:
    """One broker's registration: made at the start, and again in each further session."""

    def __init__(
        self,
        broker_id: int,
        access: RegistryAccess,
        membership: ClusterMembership,
        directories: Sequence[str],
    ) -> None:
        """`directories` keep the session's token."""
        self._broker_id = broker_id
        self._access = access
        self._registry = access.registry
        self._membership = membership
        self._directories = list(directories)
        self._listeners: Sequence[Listener] = ()
        self._expired = asyncio.Event()
        self._registry.listen(self._state_changed)

    def _state_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.EXPIRED:
            self._expired.set()

    async def check_id_is_free(self) -> None:
        """Raise BrokerStartError where another broker has our id. What we left behind ourselves is ended."""
        await self._membership.check_id_is_free(
            self._broker_id, lambda session_id: self._access.end_own_session(session_id, self._directories)
        )

    def remember(self) -> None:
        """Keep the proof that this session is ours: before anything is registered in it."""
        self._access.remember_session(self._directories)

    async def register(self, listeners: Sequence[Listener]) -> int:
        """Make the registration for the first time, with these advertised listeners. The broker epoch."""
        self._listeners = list(listeners)
        return await self._membership.register(self._broker_id, self._listeners)

    async def run(self, on_registered: Callable[[int], Awaitable[None]]) -> None:
        """Register anew whenever the session has expired, until cancelled.

        `on_registered` is called with the broker epoch of each new registration; until it has returned, the session
        does not count as restored.

        Raises BrokerStartError where another broker has taken the id, and what makes the registry unusable for good.
        """
        while True:
            await self._expired.wait()
            logger.warning("the registry session has expired: broker %d registers anew", self._broker_id)
            try:
                epoch = await self._rejoin(on_registered)
            except (ConnectionLossError, SessionExpiredError, RegistryFullError) as error:
                logger.warning("broker %d is not registered: %s; trying again", self._broker_id, error)
                await asyncio.sleep(RETRY_BACKOFF_S)
                continue
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

"""The commits of a ZooKeeper consumer; none while its partitions may have other owners."""

import asyncio
import logging

from client.errors import KafkaError, ZooKeeperSessionError
from client.zookeeper.offsets import GroupOffsets
from client.zookeeper.partitions import OwnedPartitions
from client.zookeeper.session_lease import SessionLease
from registry.errors import ConnectionLossError, RegistryError

logger = logging.getLogger(__name__)


class ZooKeeperCommitter:
    """Commits the positions of the owned partitions. One commit at a time: an older one must not arrive later."""

    def __init__(
        self, consumer_id: str, partitions: OwnedPartitions, offsets: GroupOffsets, lease: SessionLease
    ) -> None:
        self._consumer_id = consumer_id
        self._partitions = partitions
        self._offsets = offsets
        self._lease = lease
        self._lock = asyncio.Lock()

    async def commit(self, *, with_in_hand: bool) -> None:
        """Commit the positions that have changed; `with_in_hand`: as if records in hand were handled.

        Raises ZooKeeperSessionError if the lease has ended; the broker's error, SessionExpiredError,
        ConnectionLossError.
        """
        async with self._lock:
            offsets = self._partitions.positions(with_in_hand=with_in_hand)
            if not offsets:
                return
            if not self._lease.is_valid:
                raise ZooKeeperSessionError("no connection to ZooKeeper: the partitions may have other owners by now")
            await self._offsets.commit(offsets)
            self._partitions.committed(offsets)

    async def before_release(self) -> None:
        """Commit all returned records. A failure is only logged: as in 0.8, the next owners do not wait for
        this commit, and start from the last one. Raises SessionExpiredError.
        """
        try:
            await self.commit(with_in_hand=True)
        except (KafkaError, ConnectionLossError) as error:
            logger.warning("consumer %s could not commit before a rebalance: %s", self._consumer_id, error)

    async def now_and_then(self, interval_s: float) -> None:
        """Commit the handled records after every interval, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.commit(with_in_hand=False)
            except (KafkaError, RegistryError) as error:
                logger.warning("consumer %s could not commit: %s", self._consumer_id, error)

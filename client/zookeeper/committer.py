"""When a ZooKeeper consumer commits, and what: never while its partitions may be others' already."""

import asyncio
import logging

from client.errors import KafkaError, ZooKeeperSessionError
from client.zookeeper.offsets import GroupOffsets
from client.zookeeper.partitions import OwnedPartitions
from client.zookeeper.session_lease import SessionLease
from registry.errors import ConnectionLossError, RegistryError

logger = logging.getLogger(__name__)


class ZooKeeperCommitter:
    """Commits the positions of what is owned, one commit after the other: an older one must not come late."""

    def __init__(
        self, consumer_id: str, partitions: OwnedPartitions, offsets: GroupOffsets, lease: SessionLease
    ) -> None:
        self._consumer_id = consumer_id
        self._partitions = partitions
        self._offsets = offsets
        self._lease = lease
        self._lock = asyncio.Lock()

    async def commit(self, *, with_in_hand: bool) -> None:
        """Commit what has changed; `with_in_hand`: as if records in hand were done with.

        Raises ZooKeeperSessionError where the lease is over; the broker's error, SessionExpiredError,
        ConnectionLossError.
        """
        async with self._lock:
            offsets = self._partitions.positions(with_in_hand=with_in_hand)
            if not offsets:
                return
            if not self._lease.is_valid:
                raise ZooKeeperSessionError("cut off from ZooKeeper: the partitions may have other owners by now")
            await self._offsets.commit(offsets)
            self._partitions.committed(offsets)

    async def before_release(self) -> None:
        """Commit everything that was handed out. A failure is told in the log only: as in 0.8 the others do not wait
        for it, and start where the last commit was. Raises SessionExpiredError.
        """
        try:
            await self.commit(with_in_hand=True)
        except (KafkaError, ConnectionLossError) as error:
            logger.warning("consumer %s has not committed before a rebalance: %s", self._consumer_id, error)

    async def now_and_then(self, interval_s: float) -> None:
        """Commit what is done with after every interval, until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.commit(with_in_hand=False)
            except (KafkaError, RegistryError) as error:
                logger.warning("consumer %s has not committed: %s", self._consumer_id, error)

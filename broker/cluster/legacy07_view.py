"""What Kafka 0.7 would have in ZooKeeper for this broker, kept up to date for tools that read that tree.

    [chroot]/brokers/ids/[id]               host-millis:host:port
    [chroot]/brokers/topics/[topic]/[id]    number of the topic's partitions that this broker leads
    [chroot]/brokers/partitions/[topic]/[id]   the current numbers of these partitions

Each broker publishes itself in its own session: its znodes are ephemeral and end with the session, as in 0.7, so that
no other broker has to remove them. The chroot (`ottla.zookeeper.legacy07.chroot`) is below the chroot of
zookeeper.connect, if there is one.

Kafka 0.7 had no replicas, and each broker numbered its own partitions. Here, partition k of a broker stands for the
k-th partition that it leads, from 0 and in the order of their numbers. So the counts of all brokers add up to the
topic's partitions, and they change with the leaders. 0.7 has no znode for the real numbers, which Ottla's own consumer
(client/zookeeper/layout.py) needs: they are in a separate folder. The view is read-only: the protocol of 0.7 is not
served, and what others write there has no effect. Internal topics are left out, as 0.7 had none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker.cluster.metadata_cache import MetadataCache, Snapshot
from broker.topic_names import INTERNAL_TOPICS
from client.wire.backoff import Backoff, Retries
from registry.errors import (
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryFullError,
    SessionExpiredError,
)
from registry.interface import OPEN_ACL, ConnectionState, Registry
from registry.znodes.legacy07 import LegacyBrokerTopicZnode, LegacyBrokerZnode, LegacyPartitionsZnode

logger = logging.getLogger(__name__)

TOPIC_FOLDERS = ("/brokers/topics", "/brokers/partitions")
_CONSUMERS = "/consumers"
PERSISTENT_PATHS = ("/brokers/ids", *TOPIC_FOLDERS, _CONSUMERS)


class Legacy07View:
    """The znodes of one broker in the view."""

    def __init__(
        self,
        broker_id: int,
        *,
        chroot: str,
        host: str,
        port: int,
        registry: Registry,
        metadata: MetadataCache,
        now_ms: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        self._broker_id = broker_id
        self._chroot = chroot
        self._broker = LegacyBrokerZnode(creator=f"{host}-{now_ms()}", host=host, port=port)
        self._registry = registry
        self._metadata = metadata
        self._retries = Retries(backoff)
        # The published znodes by path, and the session that created them.
        self._published: dict[str, bytes] = {}
        self._session_id: int | None = None  # None differs from 0, which means that there is no session
        self._connected = asyncio.Event()
        registry.listen(self._state_changed)

    def _state_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.CONNECTED:
            self._connected.set()

    async def run(self) -> None:
        """Publish changes of the metadata, and everything in each new session, until cancelled."""
        while True:
            self._connected.clear()
            snapshot = self._metadata.snapshot
            try:
                await self.publish(snapshot)
            except (ConnectionLossError, SessionExpiredError, RegistryFullError) as error:
                logger.info("the view of 0.7 is not up to date: %s; retrying", error)
                await self._retries.wait()
                continue
            self._retries.succeeded()
            await _first_of(self._metadata_after(snapshot), self._connected.wait())

    async def _metadata_after(self, seen: Snapshot) -> None:
        while not await self._metadata.wait_until(lambda now: now is not seen, 3600.0):
            pass

    async def publish(self, snapshot: Snapshot) -> None:
        """Change the znodes to match a snapshot. Raises RegistryError."""
        if self._registry.session_id != self._session_id:
            for path in PERSISTENT_PATHS:
                with suppress(NodeExistsError):
                    # With zookeeper.set.acl, consumers must still be able to write, as in today's tree.
                    acl = OPEN_ACL if path == _CONSUMERS else None
                    await self._registry.create(self._chroot + path, acl=acl, make_parents=True)
            self._published.clear()
            self._session_id = self._registry.session_id
        wanted = self._wanted(snapshot)
        changed = [(path, data) for path, data in wanted.items() if self._published.get(path) != data]
        outcomes = await asyncio.gather(*(self._put(*one) for one in changed), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        for path in self._published.keys() - wanted.keys():
            with suppress(NoNodeError):
                await self._registry.delete(path)
            del self._published[path]
        for folder in TOPIC_FOLDERS:
            for topic in await self._registry.children(self._chroot + folder):
                if topic not in snapshot.topics:
                    with suppress(NoNodeError, NotEmptyError):  # other brokers may not have removed theirs yet
                        await self._registry.delete(f"{self._chroot}{folder}/{topic}")

    def _wanted(self, snapshot: Snapshot) -> dict[str, bytes]:
        wanted = {self._chroot + LegacyBrokerZnode.path(self._broker_id): self._broker.encode()}
        for name, topic in snapshot.topics.items():
            led = sorted(number for number, state in topic.partitions.items() if state.leader == self._broker_id)
            if led and name not in INTERNAL_TOPICS:
                path = self._chroot + LegacyPartitionsZnode.path(name, self._broker_id)
                wanted[path] = LegacyPartitionsZnode(numbers=tuple(led)).encode()
                path = self._chroot + LegacyBrokerTopicZnode.path(name, self._broker_id)
                wanted[path] = LegacyBrokerTopicZnode(partitions=len(led)).encode()
        return wanted

    async def _put(self, path: str, data: bytes) -> None:
        """Write a znode of this session. Replace one of an earlier session, or one that somebody else has created."""
        stat = await self._registry.exists(path)
        if stat is not None and stat.ephemeral_owner and stat.ephemeral_owner == self._session_id:
            await self._registry.set(path, data)
            self._published[path] = data
            return
        if stat is not None:
            with suppress(NoNodeError):
                await self._registry.delete(path)
        with suppress(NodeExistsError):  # the answer to an earlier attempt was lost
            await self._registry.create(path, data, ephemeral=True, make_parents=True)
        self._published[path] = data


async def _first_of(*awaited: Awaitable[object]) -> None:
    """Wait until one of them is done, and cancel the others."""
    tasks = [asyncio.ensure_future(one) for one in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""What Kafka 0.7 would have in ZooKeeper of this broker, kept up to date for tools that read that tree.

    [chroot]/brokers/ids/[id]               host-millis:host:port
    [chroot]/brokers/topics/[topic]/[id]    number of partitions of the topic that we lead
    [chroot]/brokers/partitions/[topic]/[id]   today's numbers of these partitions

Each broker publishes itself, in its own session: its nodes are ephemeral and go with it, as they did in 0.7, and nobody
else has to notice. The chroot (`ottla.zookeeper.legacy07.chroot`) lies below our own, if zookeeper.connect has one.

0.7 knew no replicas and gave the partitions of a broker numbers of its own. Here they are those of which it is the
leader: its partition k stands for the k-th of them, from 0 and in the order of their numbers. So the counts of all
brokers add up to the topic's partitions, and change when leaders do. 0.7 has no node for these numbers, which Ottla's
own consumer (client/zookeeper/layout.py) needs; they are in a separate folder. It is a view: the wire of 0.7 is not
served, and what is written there by others changes nothing here. Internal topics are left out, as 0.7 had none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker.cluster.metadata_cache import MetadataCache, Snapshot
from broker.topic_names import INTERNAL_TOPICS
from registry.errors import (
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryFullError,
    SessionExpiredError,
)
from registry.interface import ConnectionState, Registry
from registry.znodes.legacy07 import LegacyBrokerTopicZnode, LegacyBrokerZnode, LegacyPartitionsZnode

logger = logging.getLogger(__name__)

TOPIC_FOLDERS = ("/brokers/topics", "/brokers/partitions")
PERSISTENT_PATHS = ("/brokers/ids", *TOPIC_FOLDERS, "/consumers")
RETRY_BACKOFF_S = 0.2


class Legacy07View:
    """One broker's part of the view."""

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
    ) -> None:
        self._broker_id = broker_id
        self._chroot = chroot
        self._broker = LegacyBrokerZnode(creator=f"{host}-{now_ms()}", host=host, port=port)
        self._registry = registry
        self._metadata = metadata
        # What is there, by path, and the session that it was made in.
        self._published: dict[str, bytes] = {}
        self._session_id: int | None = None  # 0, where there is no session, is another one
        self._connected = asyncio.Event()
        registry.listen(self._state_changed)

    def _state_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.CONNECTED:
            self._connected.set()

    async def run(self) -> None:
        """Publish what the metadata say whenever they change, and everything in a new session, until cancelled."""
        while True:
            self._connected.clear()
            snapshot = self._metadata.snapshot
            try:
                await self.publish(snapshot)
            except (ConnectionLossError, SessionExpiredError, RegistryFullError) as error:
                logger.info("the view of 0.7 is not up to date: %s; trying again", error)
                await asyncio.sleep(RETRY_BACKOFF_S)
                continue
            await _first_of(self._metadata_after(snapshot), self._connected.wait())

    async def _metadata_after(self, seen: Snapshot) -> None:
        while not await self._metadata.wait_until(lambda now: now is not seen, 3600.0):
            pass

    async def publish(self, snapshot: Snapshot) -> None:
        """Make the nodes be what a snapshot says. Raises RegistryError."""
        if self._registry.session_id != self._session_id:
            for path in PERSISTENT_PATHS:
                with suppress(NodeExistsError):
                    await self._registry.create(self._chroot + path, make_parents=True)
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
                    with suppress(NoNodeError, NotEmptyError):  # others may still have theirs to take away
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
        """Make a node ours, whatever there is: ours of before, one of an earlier life, or somebody's mistake."""
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

"""A group of consumers in ZooKeeper, from the point of view of one member.

    /consumers/[group]/ids/[consumer]              the consumer is a member and wants these topics   (ephemeral)
    /consumers/[group]/owners/[topic]/[partition]  a thread of the consumer reads this partition     (ephemeral: a lock)

The layout (`layout`) defines the content of these nodes, and how brokers and partitions are found. Watched are the ids,
the brokers, the wanted topics, and with a pattern the list of topics. A watch only says that something has changed;
`view` reads the current state.

A claim is one transaction for all partitions: it succeeds for all or for none. It also checks the registration. (Kafka
0.8's consumer claims one partition after the other, and releases all if another consumer owns one.)
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from client.errors import ConsumerIdInUseError
from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff, Retries
from client.zookeeper.assignment import ConsumerThread, GroupView
from client.zookeeper.layout import Layout, Member
from client.zookeeper.topic_filter import TopicFilter
from client.zookeeper.tree import WatchedTree, read_children, read_data
from protocol.host_port import HostPort
from registry.errors import ConnectionLossError, NodeExistsError, NoNodeError
from registry.interface import ANY_VERSION, Check, Create, Watch
from registry.paths import parent_of
from registry.znodes.brokers import BrokerIdsZnode, BrokerZnode
from registry.znodes.consumers import STATIC, ConsumerIdsZnode, ConsumerOwnerZnode, ConsumerZnode
from registry.znodes.topics import TopicsZnode
from registry.zookeeper.registry import ZooKeeperRegistry

logger = logging.getLogger(__name__)

# Per transaction; far below ZooKeeper's limit for one request.
_CLAIMS_AT_ONCE: Final = 500
# How long the id may be taken, in session timeouts: the node of a dead consumer disappears after one.
_PATIENCE: Final = 2


class ZooKeeperGroup:
    """One consumer's membership in its group. All methods may raise SessionExpiredError and RegistryClosedError."""

    def __init__(
        self,
        registry: ZooKeeperRegistry,
        group_id: str,
        consumer_id: str,
        wanted: Member,
        layout: Layout,
        *,
        exclude_internal_topics: bool,
        on_change: Callable[[], None],
        backoff: Backoff,
    ) -> None:
        """`on_change` is called when the result of `view` may have changed."""
        self._registry = registry
        self._group_id = group_id
        self.consumer_id = consumer_id
        self._wanted = wanted
        self._layout = layout
        self._exclude_internal_topics = exclude_internal_topics
        self._on_change = on_change
        self._backoff = backoff
        self._id_path = ConsumerZnode.path(group_id, consumer_id)
        self._watches: list[Watch] = []
        self._topics = WatchedTree(registry, on_change)
        # Owner nodes that are ours, or may be: after a claim whose answer was lost.
        self._claimed: set[str] = set()
        # Folders of owner nodes that exist.
        self._made: set[str] = set()

    # ---- registration

    async def register(self) -> None:
        """Create our node among the ids. Raises ConsumerIdInUseError if another session keeps it.

        If this consumer died before, its old node disappears when the old session times out; this is waited for.
        """
        data = self._layout.registration(self._wanted)
        loop = asyncio.get_running_loop()
        patience_s = self._registry.session_timeout_ms / 1000 * _PATIENCE
        start = loop.time()
        retries = Retries(self._backoff)
        while True:
            try:
                await self._registry.create(self._id_path, data, ephemeral=True, make_parents=True)
                break
            except ConnectionLossError:
                continue  # the node may have been created: then it exists, and is ours
            except NodeExistsError:
                stat = await self._registry.exists(self._id_path)
            if stat is not None and stat.ephemeral_owner == self._registry.session_id:
                break
            if stat is not None and loop.time() - start > patience_s:
                raise ConsumerIdInUseError(
                    f"group {self._group_id} already has a consumer with the id {self.consumer_id}"
                )
            await retries.wait()
        logger.info("consumer %s is registered in ZooKeeper", self.consumer_id)

    async def prove_alive(self) -> bool:
        """Prove by a write, which changes nothing, that our session is alive. Return whether we are registered.

        Raises ConnectionLossError.
        """
        try:
            await self._registry.multi([Check(self._id_path, ANY_VERSION)])
        except NoNodeError:
            return False
        return True

    def watch(self) -> None:
        """Set all watches except those of topics, which are set when the topics are read."""
        paths = [ConsumerIdsZnode.path(self._group_id), BrokerIdsZnode.TEMPLATE]
        if self._wanted.pattern != STATIC:
            paths.append(TopicsZnode.TEMPLATE)
        self._watches = [self._registry.watch_children(path, self._on_change) for path in paths]

    def close(self) -> None:
        """Cancel all watches."""
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()
        self._topics.close()

    # ---- the current state

    async def view(self) -> GroupView:
        """Read the current state of the wanted topics. Raises ZnodeFormatError for content in an unknown format."""
        brokers, members = await asyncio.gather(self._brokers(), self._members())
        patterns = any(member.pattern != STATIC for member in members.values())
        known = await read_children(self._registry, TopicsZnode.TEMPLATE) if patterns else []
        threads = {consumer: self._threads(member, known) for consumer, member in sorted(members.items())}
        topics = sorted(threads.get(self.consumer_id, {}))
        self._topics.begin()
        found = await asyncio.gather(*(self._layout.partitions(self._topics, topic) for topic in topics))
        self._topics.end()
        partitions = dict(zip(topics, found, strict=True))
        # Topics that only other members want are omitted, so that their changes do not change the view.
        wanted = {
            consumer: {topic: count for topic, count in counts.items() if topic in partitions}
            for consumer, counts in threads.items()
        }
        return GroupView(brokers, wanted, partitions)

    async def _brokers(self) -> tuple[tuple[int, HostPort], ...]:
        """The live brokers that have a PLAINTEXT listener."""
        names = await read_children(self._registry, BrokerIdsZnode.TEMPLATE)
        numbers = sorted(int(name) for name in names if name.isdigit())
        paths = [BrokerZnode.path(number) for number in numbers]
        found = await asyncio.gather(*(read_data(self._registry, path) for path in paths))
        brokers = []
        for number, path, data in zip(numbers, paths, found, strict=True):
            if data is not None and (address := self._layout.address(data, path)) is not None:
                brokers.append((number, address))
        return tuple(brokers)

    async def _members(self) -> dict[str, Member]:
        names = await read_children(self._registry, ConsumerIdsZnode.path(self._group_id))
        paths = [ConsumerZnode.path(self._group_id, name) for name in names]
        found = await asyncio.gather(*(read_data(self._registry, path) for path in paths))
        return {
            name: self._layout.member(data, path)
            for name, path, data in zip(names, paths, found, strict=True)
            if data is not None
        }

    def _threads(self, member: Member, known: Iterable[str]) -> Mapping[str, int]:
        if member.pattern == STATIC:
            return member.subscription
        ((text, count),) = member.subscription.items()
        wanted = TopicFilter(member.pattern, text)
        return {
            topic: count
            for topic in known
            if wanted.allows(topic, exclude_internal_topics=self._exclude_internal_topics)
        }

    # ---- ownership

    async def claim(
        self, threads: Mapping[TopicPartition, ConsumerThread], names: Mapping[TopicPartition, str]
    ) -> list[str]:
        """Become the owner of all these partitions. Return an empty list, or, if others own some, their owner nodes.

        In the second case this consumer owns nothing. `names` are the partitions' names in ZooKeeper. Raises
        NoNodeError if we are not registered, or a topic's folder was deleted; ConnectionLossError if the outcome is
        unknown: then `release` deletes the nodes that may exist.
        """
        owners = {
            path: ConsumerOwnerZnode(thread=str(thread)).encode()
            for partition, thread in threads.items()
            for path in self._layout.owners(self._group_id, partition, names[partition])
        }
        await asyncio.gather(*map(self._make_folder, set(map(parent_of, owners)) - self._made))
        paths = list(owners)
        for start in range(0, len(paths), _CLAIMS_AT_ONCE):
            part = paths[start : start + _CLAIMS_AT_ONCE]
            claims = [Create(path, owners[path], ephemeral=True) for path in part]
            self._claimed.update(part)
            try:
                await self._registry.multi([Check(self._id_path, ANY_VERSION), *claims])
            except NoNodeError:
                self._made.clear()
                raise
            except NodeExistsError:
                self._claimed.difference_update(part)
                taken = await self.still_owned(paths[start:])
                await self.release()
                return taken or part  # if empty: the owners have just released them
        return []

    async def _make_folder(self, path: str) -> None:
        with suppress(NodeExistsError):
            await self._registry.create(path, make_parents=True)
        self._made.add(path)

    async def still_owned(self, paths: Iterable[str]) -> list[str]:
        """Those of these nodes that exist."""
        asked = list(paths)
        stats = await asyncio.gather(*map(self._registry.exists, asked))
        return [path for path, stat in zip(asked, stats, strict=True) if stat is not None]

    async def release(self) -> None:
        """Delete our owner nodes. A node that another consumer has created since is kept."""
        while self._claimed:
            try:
                await asyncio.gather(*map(self._release, tuple(self._claimed)))
            except ConnectionLossError:
                continue  # repeating is harmless, whatever the outcome was

    async def _release(self, path: str) -> None:
        stat = await self._registry.exists(path)
        if stat is not None and stat.ephemeral_owner == self._registry.session_id:
            with suppress(NoNodeError):
                await self._registry.delete(path)
        self._claimed.discard(path)

    def forget(self) -> None:
        """Note that the session, and with it all ownership, has ended."""
        self._claimed.clear()

    def watch_owners(self, paths: Iterable[str], callback: Callable[[], None]) -> list[Watch]:
        """Call `callback` when one of these nodes is deleted."""
        return [self._registry.watch_data(path, callback) for path in paths]

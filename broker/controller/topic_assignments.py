"""The topics' znodes, which hold the replicas of partitions: reads and watches them, changes them in reassignments."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial

from broker.controller.context import ControllerContext, TopicPartition
from protocol.uuid import random_uuid
from registry.errors import BadVersionError, NoNodeError, ZnodeFormatError
from registry.interface import Op, Registry, Set, Stat, Watch
from registry.pipeline import read_all
from registry.znodes.topics import TopicsZnode, TopicZnode

logger = logging.getLogger(__name__)


class TopicAssignments:
    """Maintains `context.topics`."""

    def __init__(
        self,
        registry: Registry,
        context: ControllerContext,
        *,
        has_topic_ids: bool,
        rng: random.Random,
        changed: Callable[[str], None],
    ) -> None:
        """changed: makes the controller call `read` for this topic."""
        self._registry = registry
        self._context = context
        self._has_topic_ids = has_topic_ids
        self._random = rng
        self._changed = changed
        self._watches: dict[str, Watch] = {}

    def clear(self) -> None:
        """End the term: remove the watches."""
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()

    def is_watched(self, topic: str) -> bool:
        """Return whether the topic's znode exists, valid or not."""
        return topic in self._watches

    async def read_all(self) -> None:
        """Adopt new topics, and forget those that no longer exist."""
        context = self._context
        names = set(await self._registry.children(TopicsZnode.TEMPLATE))
        for topic in context.topics.keys() - names:
            context.forget(topic)
        for topic in self._watches.keys() - names:
            self._watches.pop(topic).cancel()
        context.unreadable_topics &= names
        added = sorted(names - context.topics.keys() - context.unreadable_topics)
        for topic in added:
            if topic not in self._watches:
                path = TopicZnode.path(topic)
                self._watches[topic] = self._registry.watch_data(path, partial(self._changed, topic))
        await read_all(self.read, added)

    async def read(self, topic: str) -> None:
        """Adopt one topic; give it an id if it has none. A topic with an invalid znode is ignored."""
        path = TopicZnode.path(topic)
        try:
            data, stat = await self._registry.get(path)
            znode = TopicZnode.decode(data, path)
        except NoNodeError:
            return
        except ZnodeFormatError as error:
            logger.error("a topic is ignored: %s", error)
            self._context.unreadable_topics.add(topic)
            return
        version = stat.version
        if znode.topic_id is None and self._has_topic_ids:  # created by a tool without topic ids
            znode = znode.replace(topic_id=random_uuid(self._random), version=3)
            version = await self._set(znode, topic, version)
        self._context.unreadable_topics.discard(topic)
        self._context.take_topic(topic, znode, version)

    async def set_replicas(
        self, key: TopicPartition, replicas: list[int], *, adding: list[int], removing: list[int]
    ) -> None:
        """Write the replicas of a partition. Raises BadVersionError if the znode has changed; it is read again."""
        topic, partition = key
        context = self._context
        after = with_replicas(context.topics[topic], partition, replicas, adding, removing)
        try:
            version = await self._set(after, topic, context.topic_versions[topic])
        except BadVersionError as error:
            if error.path == TopicZnode.path(topic):
                await self.read(topic)
            raise
        context.take_topic(topic, after, version)

    async def _set(self, znode: TopicZnode, topic: str, version: int) -> int:
        ops: list[Op] = [self._context.epoch_check(), Set(TopicZnode.path(topic), znode.encode(), version)]
        stat = (await self._registry.multi(ops))[1]
        assert isinstance(stat, Stat)
        return stat.version


def with_replicas(
    znode: TopicZnode, partition: int, replicas: list[int], adding: list[int], removing: list[int]
) -> TopicZnode:
    """Return the topic's znode with other replicas of one partition."""

    def changed(lists: dict[int, list[int]], new: list[int]) -> dict[int, list[int]]:
        others = {one: list_ for one, list_ in lists.items() if one != partition}
        return {**others, partition: new} if new else others

    return znode.replace(
        partitions={**znode.partitions, partition: replicas},
        adding_replicas=changed(znode.adding_replicas, adding),
        removing_replicas=changed(znode.removing_replicas, removing),
        version=max(znode.version, 2),
    )

"""The topics' znodes, which say what replicas a partition has: reading, watching, changing them for a reassignment."""

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
    """Keeps `context.topics`."""

    def __init__(
        self,
        registry: Registry,
        context: ControllerContext,
        *,
        has_topic_ids: bool,
        rng: random.Random,
        changed: Callable[[str], None],
    ) -> None:
        """`changed(topic)`: have the controller `read` this topic again."""
        self._registry = registry
        self._context = context
        self._has_topic_ids = has_topic_ids
        self._random = rng
        self._changed = changed
        self._watches: dict[str, Watch] = {}

    def clear(self) -> None:
        """The term has ended: watch nothing any more."""
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()

    def is_watched(self, topic: str) -> bool:
        """Whether a topic's znode is there, readable or not."""
        return topic in self._watches

    async def read_all(self) -> None:
        """Take over all topics that are not known yet, and forget those that are gone."""
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
        """Take over one topic, which gets an id where it has none. One that cannot be read is left alone."""
        path = TopicZnode.path(topic)
        try:
            data, stat = await self._registry.get(path)
            znode = TopicZnode.decode(data, path)
        except NoNodeError:
            return
        except ZnodeFormatError as error:
            logger.error("a topic is left alone: %s", error)
            self._context.unreadable_topics.add(topic)
            return
        version = stat.version
        if znode.topic_id is None and self._has_topic_ids:  # made by a tool that knows none
            znode = znode.replace(topic_id=random_uuid(self._random), version=3)
            version = await self._set(znode, topic, version)
        self._context.unreadable_topics.discard(topic)
        self._context.take_topic(topic, znode, version)

    async def set_replicas(
        self, key: TopicPartition, replicas: list[int], *, adding: list[int], removing: list[int]
    ) -> None:
        """Write who holds a partition. Raises BadVersionError where the topic's znode has changed: look again."""
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
    """A topic's znode with other replicas of one partition."""

    def changed(lists: dict[int, list[int]], new: list[int]) -> dict[int, list[int]]:
        others = {one: list_ for one, list_ in lists.items() if one != partition}
        return {**others, partition: new} if new else others

    return znode.replace(
        partitions={**znode.partitions, partition: replicas},
        adding_replicas=changed(znode.adding_replicas, adding),
        removing_replicas=changed(znode.removing_replicas, removing),
        version=max(znode.version, 2),
    )

"""Deleting topics: asked for by a znode under /admin/delete_topics, done when no replica is left.

Replicas are deleted by their brokers, which may be away: such a topic stays hidden and half deleted until the last of
them has come back and answered. Only then do its znodes go, the request's own last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.config import BrokerConfig
from broker.controller.channel import OnAnswer
from broker.controller.context import ControllerContext, TopicPartition
from protocol.message import Message
from registry.admin_znodes import DeleteTopicsZnode, DeleteTopicZnode
from registry.config_znodes import TopicConfigZnode
from registry.errors import NoNodeError
from registry.interface import Registry
from registry.topic_znodes import TopicZnode

logger = logging.getLogger(__name__)

DeleteReplicas = Callable[[str, dict[int, list[TopicPartition]], Callable[[int], OnAnswer]], None]


class TopicDeletion:
    """The topics that are on their way out."""

    def __init__(
        self,
        registry: Registry,
        context: ControllerContext,
        config: BrokerConfig,
        delete_replicas: DeleteReplicas,
    ) -> None:
        self._registry = registry
        self._context = context
        self._config = config
        self._delete_replicas = delete_replicas
        self._asked: dict[str, dict[int, int]] = {}  # topic: broker id: broker epoch that was asked to delete
        self._deleted: dict[str, set[int]] = {}  # topic: brokers that have answered without an error

    async def read(self) -> None:
        """Take over the requests. With delete.topic.enable=false they are thrown away."""
        names = await self._registry.children(DeleteTopicsZnode.path())
        if not self._config.delete_topic_enable:
            for topic in names:
                logger.warning("topic %s is not deleted: delete.topic.enable is false", topic)
                await self._remove(DeleteTopicZnode.path(topic))
            names = []
        self._context.deleting = set(names)
        for gone in set(self._asked) - self._context.deleting:
            del self._asked[gone]
            self._deleted.pop(gone, None)

    async def resume(self) -> None:
        """Move every deletion on as far as it goes."""
        for topic in sorted(self._context.deleting):
            if topic not in self._context.topics:
                if await self._registry.exists(TopicZnode.path(topic)) is None:
                    await self._remove(DeleteTopicZnode.path(topic))
                    self._context.deleting.discard(topic)
                continue
            holders = self._holders(topic)
            deleted = self._deleted.setdefault(topic, set())
            if deleted >= holders.keys():
                await self._finish(topic)
                continue
            asked = self._asked.setdefault(topic, {})
            to_ask = {
                broker_id: keys
                for broker_id, keys in holders.items()
                if broker_id not in deleted
                and broker_id in self._context.brokers
                and asked.get(broker_id) != self._context.brokers[broker_id].epoch
            }
            if to_ask:
                for broker_id in to_ask:
                    asked[broker_id] = self._context.brokers[broker_id].epoch
                self._delete_replicas(topic, to_ask, partial(self._heard, topic))

    def _holders(self, topic: str) -> dict[int, list[TopicPartition]]:
        holders: dict[int, list[TopicPartition]] = {}
        for key in self._context.partitions_of(topic):
            for replica in self._context.replicas(key):
                holders.setdefault(replica, []).append(key)
        return holders

    def _heard(self, topic: str, broker_id: int) -> OnAnswer:
        def on_answer(answer: Message) -> None:
            partition_errors = getattr(answer, "partition_errors", [])
            failed = [one for one in partition_errors if one.error_code]
            if getattr(answer, "error_code", 0) or failed:
                logger.error("broker %d could not delete its replicas of %s: %r", broker_id, topic, answer)
                return
            self._deleted.setdefault(topic, set()).add(broker_id)

        return on_answer

    async def _finish(self, topic: str) -> None:
        await self._remove_tree(TopicZnode.path(topic))
        await self._remove(TopicConfigZnode.path(topic))
        await self._remove(DeleteTopicZnode.path(topic))
        self._context.forget(topic)
        self._asked.pop(topic, None)
        self._deleted.pop(topic, None)
        logger.info("topic %s is deleted", topic)

    async def _remove_tree(self, path: str) -> None:
        try:
            children = await self._registry.children(path)
        except NoNodeError:
            return
        for child in children:
            await self._remove_tree(f"{path}/{child}")
        await self._remove(path)

    async def _remove(self, path: str) -> None:
        try:
            await self._registry.delete(path)
        except NoNodeError:
            return

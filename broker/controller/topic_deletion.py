"""Deletes topics: requested by a znode under /admin/delete_topics, done when no replica is left.

Brokers delete their replicas, and may be offline: the topic then stays hidden and partly deleted until the last of them
has come back and answered. Only then are its znodes deleted: topic, settings and the request, in one transaction, so
that a client that finds the name unused can create the topic at once.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from broker.controller.broker_channels import BrokerChannels
from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.partitions import PartitionLeaders
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff, Retries
from protocol.error_codes import ErrorCode
from protocol.message import Message
from registry.errors import NoNodeError
from registry.interface import Delete, Registry
from registry.znodes.admin import DeleteTopicsZnode, DeleteTopicZnode
from registry.znodes.configs import TopicConfigZnode
from registry.znodes.topics import TopicZnode

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 1_000
RETRY_BACKOFF_MAX_MS = 30_000
"""The first and the longest delay before a broker is asked again: a failed log directory stays offline for long."""


class TopicDeletion:
    """The topics that are being deleted."""

    def __init__(
        self,
        registry: Registry,
        context: ControllerContext,
        config: BrokerConfig,
        channels: BrokerChannels,
        leaders: PartitionLeaders,
        look_again: Callable[[float], None],
        backoff: Backoff,
    ) -> None:
        """look_again: makes the controller call `resume` after this many seconds."""
        self._registry = registry
        self._context = context
        self._config = config
        self._channels = channels
        self._leaders = leaders
        self._look_again = look_again
        self._retries = defaultdict[str, Retries](lambda: Retries(backoff))
        self._asked: dict[str, dict[int, int]] = {}  # topic → broker id → epoch of the broker that was asked to delete
        self._deleted: dict[str, set[int]] = {}  # topic → brokers that have answered without an error

    def clear(self) -> None:
        """Start another term: all brokers are asked again, which does no harm."""
        self._retries.clear()
        self._asked.clear()
        self._deleted.clear()

    async def read(self) -> None:
        """Read the requests. If delete.topic.enable is false, remove them."""
        names = await self._registry.children(DeleteTopicsZnode.path())
        if not self._config.delete_topic_enable:
            for topic in names:
                logger.warning("topic %s is not deleted: delete.topic.enable is false", topic)
                await self._remove(DeleteTopicZnode.path(topic))
            names = []
        self._context.deleting = set(names)
        for removed in set(self._asked) - self._context.deleting:
            self._forget(removed)

    async def resume(self) -> None:
        """Advance each deletion as far as possible."""
        for topic in sorted(self._context.deleting):
            if topic not in self._context.topics:
                if await self._registry.exists(TopicZnode.path(topic)) is None:
                    await self._remove(DeleteTopicZnode.path(topic))
                    self._context.deleting.discard(topic)
                continue
            holders = self._holders(topic)
            if self._deleted.get(topic, set()) >= holders.keys():
                await self._finish(topic)
            else:
                await self._ask(topic, holders)

    async def _ask(self, topic: str, holders: dict[int, list[TopicPartition]]) -> None:
        """Hide the topic from all brokers, then ask brokers to delete replicas unless they were asked before."""
        live = self._context.brokers
        if topic not in self._asked:
            for broker_id in sorted(holders.keys() & live.keys()):
                await self._leaders.remove_from_isr(broker_id, holders[broker_id])
            self._asked[topic] = {}
            self._channels.update_metadata(live, self._context.partitions_of(topic))
        asked, deleted = self._asked[topic], self._deleted.setdefault(topic, set())
        for broker_id, keys in holders.items():
            if broker_id in live and broker_id not in deleted and asked.get(broker_id) != live[broker_id].epoch:
                asked[broker_id] = live[broker_id].epoch
                on_answer = partial(self._answered, topic, broker_id)
                self._channels.stop_replicas(broker_id, keys, delete=True, on_answer=on_answer)

    def _holders(self, topic: str) -> dict[int, list[TopicPartition]]:
        holders: dict[int, list[TopicPartition]] = {}
        for key in self._context.partitions_of(topic):
            for replica in self._context.replicas(key):
                holders.setdefault(replica, []).append(key)
        return holders

    def _answered(self, topic: str, broker_id: int, answer: Message) -> None:
        asked = self._asked.get(topic)
        if asked is None:
            return  # the request was removed meanwhile
        partition_errors = getattr(answer, "partition_errors", [])
        if any(one.error_code == ErrorCode.KAFKA_STORAGE_ERROR for one in partition_errors):
            # Probably offline until the broker restarts: it then registers again, and is asked at once.
            logger.warning("broker %d has replicas of %s in a log directory that failed or is full", broker_id, topic)
        elif getattr(answer, "error_code", 0) or any(one.error_code for one in partition_errors):
            logger.error("broker %d could not delete its replicas of %s: %r", broker_id, topic, answer)
        else:
            self._deleted.setdefault(topic, set()).add(broker_id)
            self._look_again(0.0)
            return
        asked.pop(broker_id, None)
        self._look_again(self._retries[topic].next_delay_s())

    async def _finish(self, topic: str) -> None:
        registry = self._registry
        path = TopicZnode.path(topic)
        for child in await registry.children(path):
            await self._remove_tree(f"{path}/{child}")
        last = [path, TopicConfigZnode.path(topic), DeleteTopicZnode.path(topic)]
        deletes = [Delete(one) for one in last if await registry.exists(one) is not None]
        await registry.multi([self._context.epoch_check(), *deletes])
        self._context.forget(topic)
        self._forget(topic)
        logger.info("topic %s is deleted", topic)

    def _forget(self, topic: str) -> None:
        self._retries.pop(topic, None)
        self._asked.pop(topic, None)
        self._deleted.pop(topic, None)

    async def _remove_tree(self, path: str) -> None:
        try:
            children = await self._registry.children(path)
        except NoNodeError:
            return
        for child in children:
            await self._remove_tree(f"{path}/{child}")
        await self._remove(path)

    async def _remove(self, path: str) -> None:
        """Delete a znode if it exists. Raises BadVersionError if another controller has been elected."""
        if await self._registry.exists(path) is not None:
            await self._registry.multi([self._context.epoch_check(), Delete(path)])

"""Partition leaders as the controller keeps them in the tree: reading states, electing, writing the outcome.

Every write is a transaction that also checks the controller epoch, and every change of a state names the version it
was read with, so nothing another broker wrote in between is lost.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping

from broker.config import BrokerConfig
from broker.controller.context import ControllerContext, Leadership, TopicPartition
from broker.controller.leader_election import (
    NO_LEADER,
    Elected,
    elect_after_loss,
    elect_for_new_partition,
)
from protocol.uuid import random_uuid
from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Create, Op, Registry, Set, Stat
from registry.topic_znodes import (
    PartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
    TopicZnode,
)

logger = logging.getLogger(__name__)

PARTITIONS_PER_TRANSACTION = 200


class PartitionLeaders:
    """Reads and writes `/brokers/topics/t/partitions/p/state`."""

    def __init__(
        self,
        registry: Registry,
        context: ControllerContext,
        config: BrokerConfig,
        topic_overrides: Callable[[str], Awaitable[dict[str, str]]],
        rng: random.Random | None = None,
    ) -> None:
        self._registry = registry
        self._context = context
        self._config = config
        self._topic_overrides = topic_overrides
        self._random = rng or random.Random()
        self._unannounced: set[TopicPartition] = set()  # in the tree, and the brokers have not been told
        self._new: set[TopicPartition] = set()  # of those, the ones that never had a leader before

    def clear(self) -> None:
        """Another term begins."""
        self._unannounced.clear()
        self._new.clear()

    def take_unannounced(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """The partitions whose states brokers must be told of now, and which of them are new."""
        exist = self._context.leaderships.keys()
        changed, new = self._unannounced & exist, self._new & exist
        self.clear()
        return changed, new

    def with_topic_id(self, znode: TopicZnode) -> TopicZnode:
        """A topic that was made by a tool which knows no topic ids gets one."""
        return znode.replace(topic_id=random_uuid(self._random), version=3)

    async def read_states(self, keys: Iterable[TopicPartition]) -> None:
        """Take over the states that exist. What differs from what was known is to be announced."""
        leaderships, unreadable = self._context.leaderships, self._context.unreadable
        for key in list(keys):
            path = PartitionStateZnode.path(*key)
            try:
                data, stat = await self._registry.get(path)
                leadership = Leadership(PartitionStateZnode.decode(data, path), stat.version)
            except NoNodeError:
                leaderships.pop(key, None)
                unreadable.discard(key)
                continue
            except ZnodeFormatError as error:
                if key not in unreadable:
                    logger.error("a partition is left alone: %s", error)
                unreadable.add(key)
                continue
            unreadable.discard(key)
            if leaderships.get(key) != leadership:
                self._learn(key, leadership)

    def _learn(self, key: TopicPartition, leadership: Leadership) -> None:
        state = leadership.state
        if key not in self._context.leaderships and state.controller_epoch == self._context.epoch:
            self._new.add(key)  # also where we wrote it and the answer was lost
        self._context.leaderships[key] = leadership
        self._unannounced.add(key)

    async def elect_new(self) -> None:
        """Give a leader to every partition that never had one, where a replica is alive."""
        states: dict[TopicPartition, PartitionStateZnode] = {}
        await self.read_states(self._context.without_state())
        for key in self._context.without_state():
            if key[0] in self._context.deleting or key in self._context.unreadable:
                continue
            elected = elect_for_new_partition(self._context.replicas(key), self._context.online_replicas(key))
            if elected is None:
                logger.warning("%s-%d has no live replica: it stays without a leader", *key)
                continue
            states[key] = PartitionStateZnode(
                leader=elected.leader, leader_epoch=0, isr=elected.isr, controller_epoch=self._context.epoch
            )
        await self._create(states)

    async def elect_for_lost(self) -> None:
        """Elect where the leader is gone, or its log directory."""
        states: dict[TopicPartition, PartitionStateZnode] = {}
        await self.read_states(self._context.without_live_leader())
        for key in self._context.without_live_leader():
            state = self._context.leaderships[key].state
            elected = await self._elect_after_loss(key, state)
            if elected is None and state.leader == NO_LEADER:
                continue
            states[key] = state.replace(
                leader=NO_LEADER if elected is None else elected.leader,
                isr=state.isr if elected is None else elected.isr,
                leader_epoch=state.leader_epoch + 1,
                controller_epoch=self._context.epoch,
            )
        await self._set(states)

    async def _elect_after_loss(self, key: TopicPartition, state: PartitionStateZnode) -> Elected | None:
        replicas, live = self._context.replicas(key), self._context.online_replicas(key)
        elected = elect_after_loss(replicas, state.isr, live, unclean=False)
        if elected is None and live:
            overrides = await self._topic_overrides(key[0])
            unclean = self._config.log_config(overrides).unclean_leader_election_enable
            elected = elect_after_loss(replicas, state.isr, live, unclean=unclean)
        return elected

    async def _create(self, states: Mapping[TopicPartition, PartitionStateZnode]) -> None:
        parents: set[str] = set()
        for chunk in _chunks(states):
            ops: list[Op] = [self._context.epoch_check()]
            for (topic, partition), state in chunk.items():
                parent = TopicPartitionsZnode.path(topic)
                if parent not in parents and await self._registry.exists(parent) is None:
                    ops.append(Create(parent))
                parents.add(parent)
                if await self._registry.exists(TopicPartitionZnode.path(topic, partition)) is None:
                    ops.append(Create(TopicPartitionZnode.path(topic, partition)))
                ops.append(Create(PartitionStateZnode.path(topic, partition), state.encode()))
            await self._registry.multi(ops)
            for key, state in chunk.items():
                self._learn(key, Leadership(state, 0))

    async def _set(self, states: Mapping[TopicPartition, PartitionStateZnode]) -> None:
        for chunk in _chunks(states):
            ops: list[Op] = [self._context.epoch_check()]
            ops += [
                Set(
                    PartitionStateZnode.path(*key),
                    state.encode(),
                    self._context.leaderships[key].partition_epoch,
                )
                for key, state in chunk.items()
            ]
            results = await self._registry.multi(ops)
            for (key, state), stat in zip(chunk.items(), results[1:], strict=True):
                assert isinstance(stat, Stat)
                self._learn(key, Leadership(state, stat.version))


def _chunks(
    states: Mapping[TopicPartition, PartitionStateZnode],
) -> list[dict[TopicPartition, PartitionStateZnode]]:
    """Transactions must fit ZooKeeper's packet limit."""
    items = list(states.items())
    return [
        dict(items[start : start + PARTITIONS_PER_TRANSACTION])
        for start in range(0, len(items), PARTITIONS_PER_TRANSACTION)
    ]

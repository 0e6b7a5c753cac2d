"""The state znodes of partitions: reads and writes them, and collects the changes to send to brokers.

Every write is a transaction that also checks the controller epoch. Every change of a state names the version that was
read, so that nothing is lost that a leader wrote in between: the write then raises BadVersionError, the state is read
again, and the event is repeated.

A state with a new leader epoch is sent to the replicas (LeaderAndIsr) and to all brokers (UpdateMetadata). If the
leader has only changed its ISR, the state is sent in UpdateMetadata alone, since the leader knows it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.controller.context import ControllerContext, Leadership, TopicPartition
from registry.errors import BadVersionError, NoNodeError, ZnodeFormatError
from registry.interface import Create, Op, Registry, Set, Stat
from registry.pipeline import read_all
from registry.znodes.topics import PartitionStateZnode, TopicPartitionsZnode, TopicPartitionZnode

logger = logging.getLogger(__name__)

PARTITIONS_PER_TRANSACTION = 200
"""Transactions must fit into ZooKeeper's packet limit."""

States = Mapping[TopicPartition, PartitionStateZnode]


class Unannounced(NamedTuple):
    """Partitions whose states must be sent to brokers."""

    changed: set[TopicPartition]
    """Partitions with a new leader epoch."""
    new: set[TopicPartition]
    """Those of `changed` that never had a leader before."""
    published: set[TopicPartition]
    """Partitions that are sent only in UpdateMetadata."""


class PartitionStates:
    """Reads and writes `/brokers/topics/t/partitions/p/state`, and maintains `context.leaderships`."""

    def __init__(self, registry: Registry, context: ControllerContext) -> None:
        self._registry = registry
        self._context = context
        self._changed: set[TopicPartition] = set()
        self._new: set[TopicPartition] = set()
        self._published: set[TopicPartition] = set()

    def clear(self) -> None:
        """Start another term: forget what is to be sent."""
        self._changed.clear()
        self._new.clear()
        self._published.clear()

    # -- changes to send -----------------------------------------------------------------------------------------------

    def take_unannounced(self) -> Unannounced:
        """Return what must be sent to brokers now, and forget it."""
        exist = self._context.leaderships.keys()
        changed = self._changed & exist
        changes = Unannounced(changed, self._new & exist, {key for key in self._published if key in exist} - changed)
        self.clear()
        return changes

    def publish(self, keys: Iterable[TopicPartition]) -> None:
        """Send the states of partitions in UpdateMetadata once more."""
        self._published.update(keys)

    def _learn(self, key: TopicPartition, leadership: Leadership) -> None:
        known = self._context.leaderships.get(key)
        state = leadership.state
        if known is None and state.controller_epoch == self._context.epoch:
            self._new.add(key)  # also if this controller wrote it and the answer was lost
        if known is None or known.state.leader_epoch != state.leader_epoch:
            self._changed.add(key)
        else:
            self._published.add(key)
        self._context.leaderships[key] = leadership

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Adopt the states that exist. Return the transactions that wrote them (mzxid), by partition.

        States that differ from the known ones will be sent to brokers.
        """
        keys = list(keys)
        written: dict[TopicPartition, int] = {}
        for key, found in zip(keys, await read_all(self._read, keys), strict=True):
            if found is None:
                continue
            leadership, written[key] = found
            if self._context.leaderships.get(key) != leadership:
                self._learn(key, leadership)
        return written

    async def _read(self, key: TopicPartition) -> tuple[Leadership, int] | None:
        """Return a state and the transaction that wrote it; None if it does not exist or is invalid."""
        unreadable = self._context.unreadable
        path = PartitionStateZnode.path(*key)
        try:
            data, stat = await self._registry.get(path)
            leadership = Leadership(PartitionStateZnode.decode(data, path), stat.version)
        except NoNodeError:
            self._context.forget_state(key)
            return None
        except ZnodeFormatError as error:
            if key not in unreadable:
                logger.error("a partition with an invalid state is not changed: %s", error)
            unreadable.add(key)
            return None
        unreadable.discard(key)
        return leadership, stat.mzxid

    # -- writing -------------------------------------------------------------------------------------------------------

    async def create(self, states: States) -> None:
        """Write the first states of partitions."""
        for chunk in _chunks(states):
            ops: list[Op] = [self._context.epoch_check(), *await self._missing_parents(chunk)]
            ops += [Create(PartitionStateZnode.path(*key), state.encode()) for key, state in chunk.items()]
            await self._registry.multi(ops)
            for key, state in chunk.items():
                self._learn(key, Leadership(state, 0))

    async def _missing_parents(self, keys: Iterable[TopicPartition]) -> list[Op]:
        paths: dict[str, None] = {}
        for topic, partition in keys:
            paths[TopicPartitionsZnode.path(topic)] = None
            paths[TopicPartitionZnode.path(topic, partition)] = None
        stats = await read_all(self._registry.exists, list(paths))
        return [Create(path) for path, stat in zip(paths, stats, strict=True) if stat is None]

    async def set(self, states: States) -> None:
        """Replace states.

        Raises BadVersionError or NoNodeError if another writer has changed or deleted one. All have been read again
        then, since that writer has seldom changed only one.
        """
        for chunk in _chunks(states):
            ops: list[Op] = [self._context.epoch_check()]
            ops += [
                Set(PartitionStateZnode.path(*key), state.encode(), self._context.leaderships[key].partition_epoch)
                for key, state in chunk.items()
            ]
            try:
                results = await self._registry.multi(ops)
            except (BadVersionError, NoNodeError) as error:
                if error.op_index:
                    await self.read(states)
                raise
            for (key, state), stat in zip(chunk.items(), results[1:], strict=True):
                assert isinstance(stat, Stat)
                self._learn(key, Leadership(state, stat.version))


def _chunks(states: States) -> list[dict[TopicPartition, PartitionStateZnode]]:
    items = list(states.items())
    return [
        dict(items[start : start + PARTITIONS_PER_TRANSACTION])
        for start in range(0, len(items), PARTITIONS_PER_TRANSACTION)
    ]

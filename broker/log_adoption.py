"""Register the topics in log directories, written by another broker, in the embedded registry.

A log directory contains the partitions, their topic ids and leader epochs, and which of them are compacted. Other
metadata (settings of topics, other replicas) was in the other broker's ZooKeeper and is not available. So a topic is
registered with replicas on this broker only. It is compacted if `cleaner-offset-checkpoint` names one of its
partitions; otherwise its retention is unlimited, so that no default setting deletes records that the topic's own
settings had kept. The state of each partition begins with the last leader epoch of its log, because epochs never
decrease.

The broker must be stopped. Topics that the registry already has are not changed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from broker.cluster.registry_access import REGISTRY_FILE
from broker.errors import BrokerStartError
from broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from protocol.uuid import random_uuid
from registry.embedded.store import EmbeddedStore
from registry.interface import Create, Op, Registry
from registry.znodes.configs import TopicConfigZnode
from registry.znodes.topics import PartitionStateZnode, TopicPartitionsZnode, TopicPartitionZnode, TopicZnode
from registry.znodes.tree import ensure_persistent_paths
from storage.directories.log_directory import LogDirectory
from storage.errors import InvalidLogDirectoryNameError
from storage.file_system import FileSystem
from storage.log.files import parse_directory_name
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.partition_metadata import read_topic_id

INTERNAL_PARTITIONS = 50
"""Kafka's default for both internal topics: keys must hash to the same partitions as before."""


class FoundTopic(NamedTuple):
    """A topic found in log directories: its partitions with the last leader epoch of each log."""

    name: str
    topic_id: bytes | None
    partitions: dict[int, int]
    compacted: bool

    @property
    def partition_count(self) -> int:
        """The minimum number of partitions that the topic had."""
        internal = INTERNAL_PARTITIONS if self.name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) else 0
        return max(max(self.partitions) + 1, internal)

    @property
    def settings(self) -> dict[str, str]:
        """The overrides that keep the existing records."""
        if self.compacted or self.name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            return {"cleanup.policy": "compact"}
        return {"retention.ms": "-1", "retention.bytes": "-1"}


class AdoptedTopic(NamedTuple):
    """The outcome for a topic: `new` is False if the registry already had it; `empty` partitions had no log."""

    topic: FoundTopic
    new: bool
    empty: int


async def adopt_logs(directories: Sequence[Path], now_ms: Callable[[], int], rng: random.Random) -> list[AdoptedTopic]:
    """Register the topics in a broker's log directories; `directories` are all of them, the first has the registry.

    Raises LogDirLockedError, CorruptFileError, RegistryError, and BrokerStartError if a directory has no broker id or
    the directories contradict each other.
    """
    fs = FileSystem()
    with _locked(fs, directories) as locked:
        broker_id = _broker_id(locked)
        found = find_topics(fs, locked)
        store = await EmbeddedStore.open(directories[0] / REGISTRY_FILE, now_ms=now_ms)
        try:
            registry = store.session()
            await registry.start()
            await ensure_persistent_paths(registry)
            adopted = [await _adopt(registry, topic, broker_id, rng) for topic in found]
            await registry.close()
        finally:
            await store.close()
    return adopted


@contextlib.contextmanager
def _locked(fs: FileSystem, directories: Sequence[Path]) -> Iterator[list[LogDirectory]]:
    with contextlib.ExitStack() as stack:
        locked = []
        for path in directories:
            if not path.is_dir():
                raise BrokerStartError(f"no directory {path}")
            directory = LogDirectory(fs, path)
            directory.lock()
            stack.callback(directory.unlock)
            locked.append(directory)
        yield locked


def _broker_id(directories: Sequence[LogDirectory]) -> int:
    ids = set()
    for directory in directories:
        meta = directory.read_meta()
        if meta is None or meta.broker_id is None:
            raise BrokerStartError(f"{directory.path} has no meta.properties with a broker.id: its broker is unknown")
        ids.add(meta.broker_id)
    if len(ids) > 1:
        raise BrokerStartError(f"the log directories belong to different brokers: {', '.join(map(str, sorted(ids)))}")
    return ids.pop()


def find_topics(fs: FileSystem, directories: Sequence[LogDirectory]) -> list[FoundTopic]:
    """Return the topics in log directories, sorted by name. Raises BrokerStartError, CorruptFileError."""
    found: dict[str, FoundTopic] = {}
    for directory in directories:
        cleaned = {topic for topic, _ in directory.cleaner_offsets.read()}
        for path in directory.partition_directories():
            try:
                name, partition = parse_directory_name(path.name)
            except InvalidLogDirectoryNameError:
                continue
            if path.name != f"{name}-{partition}":
                continue  # deleted, a future replica or a stray
            topic_id = read_topic_id(fs, str(path))
            topic = found.setdefault(name, FoundTopic(name, topic_id, {}, name in cleaned))
            if topic_id is not None and topic.topic_id not in (None, topic_id):
                raise BrokerStartError(f"{path} has another topic id than the other partitions of topic {name}")
            if partition in topic.partitions:
                raise BrokerStartError(f"{path.name} is in two log directories: remove the older copy")
            epochs = LeaderEpochCache(fs, str(path))
            epochs.load()
            topic.partitions[partition] = max(epochs.latest_epoch, 0)
            found[name] = topic._replace(
                topic_id=topic.topic_id or topic_id, compacted=topic.compacted or name in cleaned
            )
    return sorted(found.values())


async def _adopt(registry: Registry, topic: FoundTopic, broker_id: int, rng: random.Random) -> AdoptedTopic:
    name, count = topic.name, topic.partition_count
    adopted = AdoptedTopic(topic, True, count - len(topic.partitions))
    path = TopicZnode.path(name)
    if await registry.exists(path) is not None:
        known = TopicZnode.decode((await registry.get(path))[0], path)
        if topic.topic_id is not None and known.topic_id != topic.topic_id:
            raise BrokerStartError(f"the registry has a topic {name} with another topic id: delete that topic first")
        return adopted._replace(new=False)
    znode = TopicZnode(
        partitions={number: [broker_id] for number in range(count)}, topic_id=topic.topic_id or random_uuid(rng)
    )
    ops: list[Op] = [
        Create(TopicConfigZnode.path(name), TopicConfigZnode(config=topic.settings).encode()),
        Create(path, znode.encode()),
        Create(TopicPartitionsZnode.path(name), None),
    ]
    for number, epoch in sorted(topic.partitions.items()):
        state = PartitionStateZnode(leader=broker_id, leader_epoch=epoch, isr=[broker_id], controller_epoch=0)
        ops += [
            Create(TopicPartitionZnode.path(name, number), None),
            Create(PartitionStateZnode.path(name, number), state.encode()),
        ]
    await registry.multi(ops)
    return adopted

"""Making the embedded registry know the topics that log directories hold, which another broker has written.

A log directory says which partitions there are, their topic ids and leader epochs, and which of them are
compacted. The rest (settings of topics, replicas elsewhere) was in that broker's ZooKeeper and is not here: a topic
becomes one of this broker alone, compacted where `cleaner-offset-checkpoint` names a partition, and is kept for
ever, so that no default setting deletes what another setting had kept. The state of each partition begins with the
leader epoch that its log ends with: epochs never fall.

The broker must be stopped; topics that the registry has already are left as they are.
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
"""Kafka's default for both internal topics: what hashes to their partitions must find the same ones again."""


class FoundTopic(NamedTuple):
    """A topic as log directories show it: partitions with the leader epoch that each log ends with."""

    name: str
    topic_id: bytes | None
    partitions: dict[int, int]
    compacted: bool

    @property
    def partition_count(self) -> int:
        """Partitions that the topic must have had at least."""
        internal = INTERNAL_PARTITIONS if self.name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) else 0
        return max(max(self.partitions) + 1, internal)

    @property
    def settings(self) -> dict[str, str]:
        """The overrides that keep what is there."""
        if self.compacted or self.name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            return {"cleanup.policy": "compact"}
        return {"retention.ms": "-1", "retention.bytes": "-1"}


class AdoptedTopic(NamedTuple):
    """What was done with a topic: `new` is false where the registry had it. `empty`: partitions that had no log."""

    topic: FoundTopic
    new: bool
    empty: int


async def adopt_logs(directories: Sequence[Path], now_ms: Callable[[], int], rng: random.Random) -> list[AdoptedTopic]:
    """Register the topics of all of a broker's log directories; the first one holds the registry.

    Raises LogDirLockedError, BrokerStartError where directories do not say whose they are or contradict each other,
    CorruptFileError, RegistryError.
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
            raise BrokerStartError(f"{directory.path} has no meta.properties that names a broker.id: whose is it?")
        ids.add(meta.broker_id)
    if len(ids) > 1:
        raise BrokerStartError(f"the log directories belong to different brokers: {', '.join(map(str, sorted(ids)))}")
    return ids.pop()


def find_topics(fs: FileSystem, directories: Sequence[LogDirectory]) -> list[FoundTopic]:
    """The topics in log directories, by name. Raises BrokerStartError, CorruptFileError."""
    found: dict[str, FoundTopic] = {}
    for directory in directories:
        cleaned = {topic for topic, _ in directory.cleaner_offsets.read()}
        for path in directory.partition_directories():
            try:
                name, partition = parse_directory_name(path.name)
            except InvalidLogDirectoryNameError:
                continue
            if path.name != f"{name}-{partition}":
                continue  # deleted, moved or put aside
            topic_id = read_topic_id(fs, str(path))
            topic = found.setdefault(name, FoundTopic(name, topic_id, {}, name in cleaned))
            if topic_id is not None and topic.topic_id not in (None, topic_id):
                raise BrokerStartError(
                    f"{path} belongs to another topic of the name {name} than its other partitions do"
                )
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
            raise BrokerStartError(
                f"the registry has another topic of the name {name}, with another id: delete it there first"
            )
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

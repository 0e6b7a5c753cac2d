"""The offsets of a ZooKeeper consumer's group in ZooKeeper, in today's tree and in that of Kafka 0.7."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol

from client.topic_partition import TopicPartition
from client.zookeeper.tree import read_children
from registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from registry.interface import Create, Delete, Op, Registry, Set, Stat
from registry.paths import parent_of
from registry.znodes.consumers import ConsumerOffsetZnode
from registry.znodes.legacy07 import LegacyOffsetZnode, LegacyPartitionOffsetZnode


class OffsetNodes(Protocol):
    """The offsets of one group. May raise SessionExpiredError, RegistryClosedError."""

    async def fetch(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """The offsets of these partitions, which this consumer owns under these names from now on.

        Raises ZnodeFormatError.
        """

    async def look(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """Like `fetch`, for partitions that this consumer does not own; changes nothing."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the offsets of partitions that were fetched before."""


class TodaysOffsetNodes:
    """`/consumers/[group]/offsets/[topic]/[partition]`."""

    def __init__(self, registry: Registry, group_id: str) -> None:
        self._registry = registry
        self._group_id = group_id

    async def fetch(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """Read the nodes."""
        return await self.look(names)

    async def look(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """Read the nodes; the -1 that 0.8 writes means no offset."""
        read = await asyncio.gather(*map(self._read, names))
        return {partition: offset for partition, offset in zip(names, read, strict=True) if offset >= 0}

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the nodes."""
        await asyncio.gather(*(self._write(*one) for one in offsets.items()))

    async def _read(self, partition: TopicPartition) -> int:
        path = ConsumerOffsetZnode.path(self._group_id, *partition)
        try:
            data, _ = await self._registry.get(path)
        except NoNodeError:
            return -1
        return ConsumerOffsetZnode.decode(data, path).offset

    async def _write(self, partition: TopicPartition, offset: int) -> None:
        path = ConsumerOffsetZnode.path(self._group_id, *partition)
        data = ConsumerOffsetZnode(offset=offset).encode()
        while True:
            try:
                await self._registry.set(path, data)
            except ConnectionLossError:
                continue  # repeating the write is harmless
            except NoNodeError:
                try:
                    await self._registry.create(path, data, make_parents=True)
                except (ConnectionLossError, NodeExistsError):
                    continue
            return


class Legacy07OffsetNodes:
    """`/consumers/[group]/offsets/[topic]/[broker-partition]`, extended so that offsets follow a partition.

    When a leader changes, the name of a broker partition becomes that of another partition. So each offset is kept
    twice, in one transaction: under the name, as in 0.7, and under the partition's number
    (`LegacyPartitionOffsetZnode`). If a name's node was last written without a partition's node (by a person, an
    import), it is used for the partition that has the name now. Otherwise the partition's own node is used, even if
    the node under the name is missing.
    """

    def __init__(self, registry: Registry, group_id: str) -> None:
        self._registry = registry
        self._group_id = group_id
        self._names: dict[TopicPartition, str] = {}
        # Partitions with both nodes under their current names.
        self._in_place: set[TopicPartition] = set()

    async def fetch(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """Read the nodes; create those that are missing, and move those under old names."""
        self._names = dict(names)
        found = await self._look(names)
        self._in_place = {partition for partition, (_, in_place) in found.items() if in_place}
        offsets = {partition: offset for partition, (offset, _) in found.items()}
        await self.commit({partition: offsets[partition] for partition in found.keys() - self._in_place})
        return offsets

    async def look(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """Read the nodes."""
        return {partition: offset for partition, (offset, _) in (await self._look(names)).items()}

    async def _look(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, tuple[int, bool]]:
        """For each partition with an offset: the offset, and whether both of its nodes are under the current name."""
        topics = sorted({partition.topic for partition in names})
        # Read the partitions' nodes first: a consumer whose partition gets another name deletes the node under the old
        # name and changes the partition's node in one transaction.
        nodes = await asyncio.gather(
            *(read_partition_offsets(self._registry, self._group_id, topic) for topic in topics)
        )
        kept = dict(zip(topics, nodes, strict=True))
        written = {topic: {stat.mzxid for _, stat in own.values()} for topic, own in kept.items()}
        read = await asyncio.gather(
            *(
                self._read(partition, name, kept[partition.topic].get(partition.partition), written[partition.topic])
                for partition, name in names.items()
            )
        )
        return {partition: found for partition, found in zip(names, read, strict=True) if found is not None}

    async def _read(
        self,
        partition: TopicPartition,
        name: str,
        own: tuple[LegacyPartitionOffsetZnode, Stat] | None,
        written: Collection[int],
    ) -> tuple[int, bool] | None:
        """`own` is the partition's node; `written` are the mzxids of all partition nodes of the topic."""
        path = LegacyOffsetZnode.path(self._group_id, partition.topic, name)
        named = await _get(self._registry, path)
        if named is not None and named[1].mzxid not in written:
            return LegacyOffsetZnode.decode(named[0], path).position, False
        if own is None:
            return None
        return own[0].offset, named is not None and named[1].mzxid == own[1].mzxid

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write both nodes of each partition."""
        await asyncio.gather(*(self._write(*one) for one in offsets.items()))

    async def _write(self, partition: TopicPartition, offset: int) -> None:
        name = self._names[partition]
        nodes = {
            LegacyOffsetZnode.path(self._group_id, partition.topic, name): LegacyOffsetZnode(position=offset).encode(),
            LegacyPartitionOffsetZnode.path(self._group_id, *partition): LegacyPartitionOffsetZnode(
                broker_partition=name, offset=offset
            ).encode(),
        }
        while True:
            try:
                if partition in self._in_place:
                    await self._registry.multi([Set(path, data) for path, data in nodes.items()])
                else:
                    await self._registry.multi(await self._placing(partition, nodes))
                    self._in_place.add(partition)
            except ConnectionLossError:
                continue  # repeating the write is harmless
            except (NoNodeError, NodeExistsError, BadVersionError):
                self._in_place.discard(partition)  # somebody has changed the nodes
                continue
            return

    async def _placing(self, partition: TopicPartition, nodes: Mapping[str, bytes]) -> list[Op]:
        """Operations that write both nodes and delete the node under the partition's previous name."""
        operations: list[Op] = []
        for path, data in nodes.items():
            if await self._registry.exists(path) is None:
                await self._make_folder(parent_of(path))
                operations.append(Create(path, data))
            else:
                operations.append(Set(path, data))
        own_path = LegacyPartitionOffsetZnode.path(self._group_id, *partition)
        if (own := await _get(self._registry, own_path)) is not None:
            before = LegacyPartitionOffsetZnode.decode(own[0], own_path).broker_partition
            path = LegacyOffsetZnode.path(self._group_id, partition.topic, before)
            named = None if path in nodes else await _get(self._registry, path)
            if named is not None and named[1].mzxid == own[1].mzxid:
                operations.append(Delete(path, named[1].version))
        return operations

    async def _make_folder(self, path: str) -> None:
        try:
            await self._registry.create(path, make_parents=True)
        except NodeExistsError:
            return


async def read_partition_offsets(
    registry: Registry, group_id: str, topic: str
) -> dict[int, tuple[LegacyPartitionOffsetZnode, Stat]]:
    """All partition nodes of a group and a topic in 0.7's tree, by partition number. Raises ZnodeFormatError."""
    folder = f"/consumers/{group_id}/partition_offsets/{topic}"
    numbers = [int(name) for name in await read_children(registry, folder) if name.isdigit()]
    found = await asyncio.gather(*(_get(registry, f"{folder}/{number}") for number in numbers))
    return {
        number: (LegacyPartitionOffsetZnode.decode(one[0], f"{folder}/{number}"), one[1])
        for number, one in zip(numbers, found, strict=True)
        if one is not None
    }


async def _get(registry: Registry, path: str) -> tuple[bytes, Stat] | None:
    try:
        data, stat = await registry.get(path)
    except NoNodeError:
        return None
    return data or b"", stat

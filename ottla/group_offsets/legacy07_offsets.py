"""Offsets that consumers of Kafka 0.7 stored in ZooKeeper, and their translation to offsets of today's logs.

They are stored at `/consumers/<group>/offsets/<topic>/<broker>-<partition>`. The translation has two parts:

- *The partition.* In 0.7 each broker numbers its own partitions. `--map` maps them to partitions of the cluster.
  Without it, the partitions of a topic are sorted by broker and then by number, and become 0, 1, 2, …: as if the logs
  had been migrated in that order.
- *The record.* An offset of 0.7 is the position of a byte in a log that no longer exists; an offset of today counts
  records. One cannot be computed from the other; the user who copied the records must provide the translation: a table
  of positions and offsets (`--positions`), or the statement that each record was written with its position as its
  offset, which Kafka's format allows (`--positions-are-offsets`). Without one of these nothing is imported.

Offsets that Ottla's own consumers wrote need no translation: they are record offsets, and are also stored by partition
number.
"""

import asyncio
import csv
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from client.topic_partition import TopicPartition
from client.zookeeper.layout import Legacy07Layout, partition_names
from client.zookeeper.offset_nodes import read_partition_offsets
from ottla.command_line.failure import CommandError
from ottla.group_offsets.zookeeper_offsets import children, read_groups
from registry.errors import ZnodeFormatError
from registry.interface import Registry
from registry.znodes.legacy07 import BrokerPartition, LegacyOffsetZnode

_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


class LegacyPartition(NamedTuple):
    """A partition of 0.7."""

    topic: str
    partition: BrokerPartition

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}"


LegacyOffsets = dict[LegacyPartition, int]


async def read_legacy_offsets(registry: Registry, groups: Sequence[str]) -> dict[str, LegacyOffsets]:
    """Return the positions of these groups, or of all groups that have any, sorted.

    Raises the errors of `read_zookeeper_offsets`.
    """
    return await read_groups(registry, groups, _read_group)


async def _read_group(registry: Registry, group: str) -> LegacyOffsets:
    top = f"/consumers/{group}/offsets"
    topics = sorted(await children(registry, top))
    names = []
    for topic, part in zip(
        topics, await asyncio.gather(*(children(registry, f"{top}/{topic}") for topic in topics)), strict=True
    ):
        for name in part:
            try:
                names.append(LegacyPartition(topic, BrokerPartition.parse(name, f"{top}/{topic}/{name}")))
            except ZnodeFormatError as error:
                raise CommandError(f"{error}: is this Kafka 0.7's tree?") from None
    names.sort()
    return dict(zip(names, await asyncio.gather(*(_read(registry, group, name) for name in names)), strict=True))


async def _read(registry: Registry, group: str, name: LegacyPartition) -> int:
    path = LegacyOffsetZnode.path(group, *name)
    return LegacyOffsetZnode.decode((await registry.get(path))[0], path).position


async def take_kept_offsets(registry: Registry, group: str, offsets: LegacyOffsets) -> dict[TopicPartition, int]:
    """Return the record offsets that Ottla's own consumers stored, and remove their topics' entries from `offsets`.

    These consumers also store offsets by partition number (`LegacyPartitionOffsetZnode`). An offset under a broker
    partition that no such consumer wrote (a user did) belongs to the partition that has this name now, as in
    `Legacy07OffsetNodes`; if no partition with a leader in the view has the name, to the last partition that had it.
    If there is no such partition, the offset stays in `offsets`.
    """
    found: dict[TopicPartition, int] = {}
    for topic in await children(registry, f"/consumers/{group}/partition_offsets"):
        kept = await read_partition_offsets(registry, group, topic)
        if not kept:
            continue
        led = await partition_names(registry, Legacy07Layout(), [topic])
        partitions = {name: partition for partition, name in led.items()}
        for number, (own, _) in sorted(kept.items(), key=lambda one: one[1][1].mzxid, reverse=True):
            partition = TopicPartition(topic, number)
            found[partition] = own.offset
            if partition not in led:
                partitions.setdefault(own.broker_partition, partition)
        written = {stat.mzxid for _, stat in kept.values()}
        for name in [name for name in offsets if name.topic == topic]:
            _, stat = await registry.get(LegacyOffsetZnode.path(group, *name))
            if stat.mzxid in written:
                del offsets[name]
            elif str(name.partition) in partitions:
                found[partitions[str(name.partition)]] = offsets.pop(name)
    return found


async def known_partitions(registry: Registry) -> list[LegacyPartition]:
    """Return all partitions in the tree, sorted: those of registered brokers and those with offsets of a group."""
    found: set[LegacyPartition] = set()
    for topic in await children(registry, "/brokers/topics"):
        for broker in await children(registry, f"/brokers/topics/{topic}"):
            data, _ = await registry.get(f"/brokers/topics/{topic}/{broker}")
            if re.fullmatch("[0-9]{1,10}", broker) and data is not None and re.fullmatch(b"[0-9]{1,9}", data):
                found |= {LegacyPartition(topic, BrokerPartition(int(broker), n)) for n in range(int(data))}
    for group in await children(registry, "/consumers"):
        found |= (await _read_group(registry, group)).keys()
    return sorted(found)


def default_map(partitions: Iterable[LegacyPartition]) -> dict[LegacyPartition, TopicPartition]:
    """Map each topic's partitions, sorted by broker and then by number, to 0, 1, 2, …"""
    mapped: dict[LegacyPartition, TopicPartition] = {}
    counts: dict[str, int] = {}
    for name in sorted(partitions):
        number = counts.get(name.topic, 0)
        mapped[name] = TopicPartition(name.topic, number)
        counts[name.topic] = number + 1
    return mapped


def parse_map(texts: Sequence[str]) -> dict[LegacyPartition, TopicPartition]:
    """Parse texts "TOPIC:BROKER-PARTITION=PARTITION". Raises CommandError, also if a partition is named twice."""
    mapped: dict[LegacyPartition, TopicPartition] = {}
    for text in texts:
        found = re.fullmatch(r"([^:=]+):([0-9]{1,10}-[0-9]{1,10})=([0-9]{1,10})", text)
        if found is None or int(found[3]) > _MAX_PARTITION:
            raise CommandError(f"--map {text!r}: must be TOPIC:BROKER-PARTITION=PARTITION, such as orders:29-0=2")
        name = LegacyPartition(found[1], BrokerPartition.parse(found[2], found[2]))
        target = TopicPartition(found[1], int(found[3]))
        if name in mapped or target in mapped.values():
            raise CommandError(f"--map {text!r}: {name} or {target} is named twice")
        mapped[name] = target
    return mapped


class PositionTable:
    """The offsets of the records of migrated partitions, by their former positions in bytes."""

    def __init__(self, rows: Mapping[LegacyPartition, Mapping[int, int]]) -> None:
        self._rows = {name: (sorted(table), table) for name, table in rows.items()}

    @classmethod
    def read(cls, path: Path) -> "PositionTable":
        """Read lines topic,broker-partition,position,offset. Raises CommandError, which names the line, and OSError."""
        rows: dict[LegacyPartition, dict[int, int]] = {}
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            try:
                for fields in reader:
                    where = f"{path}, line {reader.line_num}"
                    if len(fields) != 4 or not all(re.fullmatch("[0-9]{1,19}", text) for text in fields[2:]):
                        rule = "is not topic,broker-partition,position,offset"
                        raise CommandError(f"{where}: {','.join(fields)!r} {rule}")
                    name = LegacyPartition(fields[0], BrokerPartition.parse(fields[1], where))
                    position, offset = int(fields[2]), int(fields[3])
                    if max(position, offset) > _MAX_OFFSET or position in rows.setdefault(name, {}):
                        raise CommandError(
                            f"{where}: position {position} or its offset is too large, or the position is repeated"
                        )
                    rows[name][position] = offset
            except (csv.Error, UnicodeDecodeError, ZnodeFormatError) as error:
                raise CommandError(f"{path}, line {reader.line_num}: {error}") from None
        if not rows:
            raise CommandError(f"{path} contains no positions")
        return cls(rows)

    def offset(self, name: LegacyPartition, position: int) -> tuple[int, int] | None:
        """Return the largest known position up to `position`, and its offset; None if there is none.

        A consumer that continues there skips no record; it reads some records again if `position` itself is unknown.
        """
        positions, table = self._rows.get(name, ([], {}))
        index = bisect_right(positions, position)
        return None if index == 0 else (positions[index - 1], table[positions[index - 1]])


def translate(
    group: str,
    offsets: LegacyOffsets,
    mapped: Mapping[LegacyPartition, TopicPartition],
    table: PositionTable | None,
    notes: list[str],
) -> dict[TopicPartition, int]:
    """Translate a group's positions to offsets; with `table` None, positions are offsets.

    Adds to `notes` each translation and each position that is left out.
    """
    found: dict[TopicPartition, int] = {}
    for name, position in offsets.items():
        target = mapped.get(name)
        if target is None:
            notes.append(f"{group}: {name} is not mapped, skipped")
            continue
        if table is None:
            found[target] = position
            notes.append(f"{group}: {name} is {target}, at byte {position} as offset")
            continue
        known = table.offset(name, position)
        if known is None:
            notes.append(f"{group}: {name} at byte {position} is before all known positions, skipped")
            continue
        before = "" if known[0] == position else f" (the nearest known is {known[0]}: some records are read again)"
        notes.append(f"{group}: {name} is {target}, at byte {position}{before} offset {known[1]}")
        found[target] = known[1]
    return found

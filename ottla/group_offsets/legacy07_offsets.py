"""Offsets that consumers of Kafka 0.7 have left in ZooKeeper, and what they can mean in a log of today.

They lie under `/consumers/<group>/offsets/<topic>/<broker>-<partition>`, and two things stand between them and today's:

- *Which partition?* Each broker of 0.7 gave its partitions numbers of its own. Without a word from the person who
  migrated
  the logs (`--map`), a topic's are put in a row, by broker and then by number, and become 0, 1, 2, …: as if the logs
  had
  been taken over in that order.
- *Which record?* An offset of 0.7 is the position of a byte in a log that is gone; today's count records. No rule leads
  from one to the other: only whoever copied the records knows. Either there is a table of positions and offsets
  (`--positions`),
  or the records were written each with its position as its offset, which Kafka's format allows
  (`--positions-are-offsets`).
  Without one of these nothing is imported.

Offsets that Ottla's own consumers have written need neither: they are record offsets, and are also stored by partition
number.
"""

import asyncio
import csv
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from client.topic_partition import TopicPartition
from client.zookeeper.layout import Legacy07Layout, partition_names
from client.zookeeper.offset_nodes import read_partition_offsets
from ottla.command_line.failure import CommandError
from ottla.group_offsets.zookeeper_offsets import children, read_groups
from registry.errors import ZnodeFormatError
from registry.znodes.legacy07 import BrokerPartition, LegacyOffsetZnode

if TYPE_CHECKING:
    from registry.interface import Registry

_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


class LegacyPartition(NamedTuple):
    """A partition of 0.7."""

    topic: str
    partition: BrokerPartition

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}"


LegacyOffsets = dict[LegacyPartition, int]


async def read_legacy_offsets(registry: "Registry", groups: Sequence[str]) -> dict[str, LegacyOffsets]:
    """The positions of these groups, or of all that have any; sorted. Errors as for those of today."""
    return await read_groups(registry, groups, _read_group)


async def _read_group(registry: "Registry", group: str) -> LegacyOffsets:
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


async def _read(registry: "Registry", group: str, name: LegacyPartition) -> int:
    path = LegacyOffsetZnode.path(group, *name)
    return LegacyOffsetZnode.decode((await registry.get(path))[0], path).position


async def take_kept_offsets(registry: "Registry", group: str, offsets: LegacyOffsets) -> dict[TopicPartition, int]:
    """Today's offsets of the topics for which Ottla's own consumers have kept some, taken out of `offsets`.

    They have stored them by partition number as well (`LegacyPartitionOffsetZnode`). An offset under a name that none
    of them wrote (a person did) is for the partition that has the name now, as in `Legacy07OffsetNodes`; if this
    partition has no leader in the view, for the last one that had the name. It stays in `offsets` if there is neither.
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


async def known_partitions(registry: "Registry") -> list[LegacyPartition]:
    """All partitions that the tree tells of: by brokers that are registered, and by any group's offsets. Sorted."""
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
    """A topic's partitions in a row, by broker and then by number, as 0, 1, 2, …"""
    mapped: dict[LegacyPartition, TopicPartition] = {}
    counts: dict[str, int] = {}
    for name in sorted(partitions):
        number = counts.get(name.topic, 0)
        mapped[name] = TopicPartition(name.topic, number)
        counts[name.topic] = number + 1
    return mapped


def parse_map(texts: Sequence[str]) -> dict[LegacyPartition, TopicPartition]:
    """Read "TOPIC:BROKER-PARTITION=PARTITION" texts. Raises CommandError: for two that become one, too."""
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
    """At which offset the records of migrated partitions are now, by the position in bytes that they had."""

    def __init__(self, rows: Mapping[LegacyPartition, Mapping[int, int]]) -> None:
        self._rows = {name: (sorted(table), table) for name, table in rows.items()}

    @classmethod
    def read(cls, path: Path) -> "PositionTable":
        """Read lines of topic,broker-partition,position,offset. Raises CommandError naming the line; OSError."""
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
                        raise CommandError(f"{where}: position {position} is too great, or stands there already")
                    rows[name][position] = offset
            except (csv.Error, UnicodeDecodeError, ZnodeFormatError) as error:
                raise CommandError(f"{path}, line {reader.line_num}: {error}") from None
        if not rows:
            raise CommandError(f"{path} has no positions in it")
        return cls(rows)

    def offset(self, name: LegacyPartition, position: int) -> tuple[int, int] | None:
        """The greatest known position that is not behind this one, and its offset; None where there is none.

        A consumer that goes on there reads some records again where the position itself is not known, and skips none.
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
    """Today's offsets of a group; `table` None: positions are offsets. What is left out, or not exact, is noted."""
    found: dict[TopicPartition, int] = {}
    for name, position in offsets.items():
        target = mapped.get(name)
        if target is None:
            notes.append(f"{group}: {name} is not mapped, left out")
            continue
        if table is None:
            found[target] = position
            notes.append(f"{group}: {name} is {target}, at byte {position} as offset")
            continue
        known = table.offset(name, position)
        if known is None:
            notes.append(f"{group}: {name} at byte {position} is before all positions that are known, left out")
            continue
        before = "" if known[0] == position else f" (the nearest known is {known[0]}: some records come again)"
        notes.append(f"{group}: {name} is {target}, at byte {position}{before} offset {known[1]}")
        found[target] = known[1]
    return found

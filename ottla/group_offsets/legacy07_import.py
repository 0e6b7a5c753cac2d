"""`ottla groups import-zookeeper --layout 0.7`: apply the user's description of a migration to offsets of Kafka 0.7."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from ottla.command_line.failure import CommandError
from ottla.command_line.output import print_json, print_table
from ottla.group_offsets.legacy07_offsets import (
    LegacyOffsets,
    LegacyPartition,
    PositionTable,
    default_map,
    known_partitions,
    parse_map,
    read_legacy_offsets,
    take_kept_offsets,
    translate,
)
from registry.interface import Registry

UNTRANSLATABLE = (
    "offsets of Kafka 0.7 are positions in bytes, which do not identify a record of the cluster: nothing can be"
    " imported without --positions FILE (the offsets of the records in the migrated log) or --positions-are-offsets"
    " (if the offset of each record is its position)"
)


class LegacyImport:
    """The mapping of partitions and, if given, of positions."""

    def __init__(self, mapping: Sequence[str], positions: Path | None, *, positions_are_offsets: bool) -> None:
        """Parse the options. Raises CommandError if an option or the file is invalid."""
        self._map = parse_map(mapping)
        self._table = None if positions is None else PositionTable.read(positions)
        self._can_translate = positions is not None or positions_are_offsets
        # The number of partitions of each topic in 0.7, if `default_map` is used.
        self._counts: Counter[str] = Counter()

    async def read(
        self, registry: Registry, groups: Sequence[str], notes: list[str], *, as_json: bool, execute: bool
    ) -> dict[str, dict[TopicPartition, int]]:
        """Return the translated offsets of these groups, or of all groups.

        Raises CommandError if positions cannot be translated; without `execute`, prints them first with the partitions
        that they map to.
        """
        found = await read_legacy_offsets(registry, groups)
        kept = {group: await take_kept_offsets(registry, group, offsets) for group, offsets in found.items()}
        if not any(found.values()):
            return kept
        mapped: Mapping[LegacyPartition, TopicPartition] = self._map
        if not mapped:
            partitions = await known_partitions(registry)
            mapped = default_map(partitions)
            self._counts = Counter(name.topic for name in partitions)
        if not self._can_translate:
            if not execute:
                _show(found, mapped, as_json=as_json)
            raise CommandError(UNTRANSLATABLE)
        return {
            group: translate(group, offsets, mapped, self._table, notes) | kept[group]
            for group, offsets in found.items()
        }

    def note_counts(self, known: Mapping[str, TopicMetadata], notes: list[str]) -> None:
        """Note topics whose number of partitions has changed, so that `default_map` may be wrong."""
        for topic, count in sorted(self._counts.items()):
            if topic in known and len(known[topic].partitions) != count:
                now = len(known[topic].partitions)
                notes.append(
                    f"{topic}: it has {count} known partitions in 0.7 and {now} in the cluster: map them with --map"
                )


def _show(
    found: Mapping[str, LegacyOffsets], mapped: Mapping[LegacyPartition, TopicPartition], *, as_json: bool
) -> None:
    rows = [
        (group, name.topic, str(name.partition), position, mapped[name].partition if name in mapped else None)
        for group, offsets in found.items()
        for name, position in offsets.items()
    ]
    columns = ("group", "topic", "broker_partition", "position", "partition")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(("group", "topic", "of 0.7", "byte", "partition"), rows)

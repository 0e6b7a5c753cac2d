"""`ottla groups import-zookeeper --layout 0.7`: what a person says of a migration, and what follows from it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from client.topic_partition import TopicPartition
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

if TYPE_CHECKING:
    from client.wire.metadata import TopicMetadata
    from registry.interface import Registry

UNTRANSLATABLE = (
    "these are positions in bytes in logs of Kafka 0.7, which say nothing of a record of today: nothing can be imported"
    " without --positions FILE (where the records of the migrated log are now) or --positions-are-offsets (if each was"
    " given its position as its offset)"
)


class LegacyImport:
    """The mapping of partitions, and of positions if there is one."""

    def __init__(self, mapping: Sequence[str], positions: Path | None, *, positions_are_offsets: bool) -> None:
        """Raises CommandError for what cannot be read."""
        self._map = parse_map(mapping)
        self._table = None if positions is None else PositionTable.read(positions)
        self._can_translate = positions is not None or positions_are_offsets
        # How many partitions topics had, where these are counted through.
        self._counts: Counter[str] = Counter()

    async def read(
        self, registry: "Registry", groups: Sequence[str], notes: list[str], *, as_json: bool, execute: bool
    ) -> dict[str, dict[TopicPartition, int]]:
        """Today's offsets of these groups, or of all. Where positions cannot be translated: raises CommandError.

        Without `execute` they are shown first then, with the partitions that they would be of.
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

    def note_counts(self, known: "Mapping[str, TopicMetadata]", notes: list[str]) -> None:
        """Note topics that have another number of partitions now, so that counting them through is a guess."""
        for topic, count in sorted(self._counts.items()):
            if topic in known and len(known[topic].partitions) != count:
                now = len(known[topic].partitions)
                notes.append(
                    f"{topic}: {count} partitions of 0.7 are known, it has {now} now: --map says which is which"
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

"""A plan of new offsets for groups: it is computed and shown before it is executed.

An offset given by the user, or computed by a shift, is limited to the range of the log: its start or its end. A time
after the last record means the log end. `notes` reports such corrections.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import GroupIdNotFoundError, KafkaError
from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.output import counted
from ottla.command_line.session import check_partition, has_partition
from ottla.group_offsets.offset_file import OffsetRow

EMPTY = "Empty"


class Goal(Enum):
    """The target of a reset."""

    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    CURRENT = "--to-current"
    OFFSET = "--to-offset"
    TIME = "--to-timestamp"
    DURATION = "--by-duration"
    SHIFT = "--shift-by"


class PlannedOffset(NamedTuple):
    """The committed offset of a group for a partition (None if there is none), and the planned offset."""

    group: str
    partition: TopicPartition
    current: int | None
    new: int


class OffsetPlan:
    """The plan for some groups."""

    def __init__(self) -> None:
        self.entries: list[PlannedOffset] = []
        self.notes: list[str] = []

    async def require_inactive(self, admin: Admin, groups: Sequence[str]) -> None:
        """Raise CommandError if a group has members, because only they may commit. Adds unknown groups to `notes`."""
        for group, found in (await admin.describe_groups(groups)).items():
            if isinstance(found, GroupIdNotFoundError):
                self.notes.append(f"group {group} did not exist")
            elif isinstance(found, KafkaError):
                raise found
            elif found.state != EMPTY:
                raise CommandError(
                    f"group {group} is {found.state} with {counted(len(found.members), 'member')}:"
                    " its offsets can be changed only while it has none"
                )

    def add(
        self,
        group: str,
        committed: Mapping[TopicPartition, OffsetAndMetadata | int],
        new: Mapping[TopicPartition, int],
    ) -> None:
        """Plan offsets for a group."""
        for partition in sorted(new):
            current = committed.get(partition)
            offset = current if current is None or isinstance(current, int) else current.offset
            self.entries.append(PlannedOffset(group, partition, offset, new[partition]))

    async def carry_out(self, admin: Admin) -> None:
        """Commit the offsets, one group at a time. Raises the first error; CommandError if a group has members."""
        for group in dict.fromkeys(entry.group for entry in self.entries):
            offsets = {entry.partition: OffsetAndMetadata(entry.new) for entry in self.entries if entry.group == group}
            for error in (await admin.alter_group_offsets(group, offsets)).values():
                if error is not None:
                    raise _refusal(group, error)

    async def within_log(self, admin: Admin, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offsets limited to the range from log start to log end."""
        starts = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(wanted, LATEST))
        new = {}
        for partition, offset in wanted.items():
            new[partition] = min(max(offset, starts[partition].offset), ends[partition].offset)
            if new[partition] != offset:
                edge = "before the start of the log" if offset < new[partition] else "after the end of the log"
                self.notes.append(f"{partition}: {offset} is {edge}, which is {new[partition]}")
        return new

    def only_in_cluster(
        self,
        group: str,
        wanted: Mapping[TopicPartition, int],
        known: Mapping[str, TopicMetadata],
        keep: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, int]:
        """Return the offsets of existing partitions, without the partitions in `keep`, whose committed offsets stay."""
        new = {}
        for partition, offset in wanted.items():
            if not has_partition(known, partition):
                self.notes.append(f"{group}: {partition} is not in the cluster, skipped")
            elif partition in keep:
                current = keep[partition].offset
                self.notes.append(f"{group}: {partition} already has the committed offset {current}, not changed")
            else:
                new[partition] = offset
        return new

    async def only_in_log(
        self, admin: Admin, group: str, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the offsets from log start to log end; other offsets cannot be of this log, and are left out."""
        starts = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST)) if wanted else {}
        ends = await admin.list_offsets(dict.fromkeys(wanted, LATEST)) if wanted else {}
        new = {}
        for partition, offset in wanted.items():
            start, end = starts[partition].offset, ends[partition].offset
            if start <= offset <= end:
                new[partition] = offset
            else:
                self.notes.append(f"{group}: {partition} has offsets from {start} to {end}, not {offset}, skipped")
        return new

    async def at_time(
        self, admin: Admin, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record at or after a time; the log end if there is none."""
        found = await admin.list_offsets(dict.fromkeys(partitions, timestamp))
        too_early = [partition for partition, one in found.items() if one.offset < 0]
        ends = await admin.list_offsets(dict.fromkeys(too_early, LATEST)) if too_early else {}
        self.notes += [f"{partition}: no record at or after this time, using the log end" for partition in too_early]
        return {partition: (ends.get(partition) or one).offset for partition, one in found.items()}


async def plan_reset(
    admin: Admin, plan: OffsetPlan, group: str, scope: Mapping[str, list[int] | None] | None, goal: Goal, value: int
) -> None:
    """Plan the reset of a group in some partitions; with `scope` None, in all for which it has committed."""
    committed = await admin.list_group_offsets(group)
    known = await admin.describe_topics()
    if scope is None:
        partitions = [partition for partition in committed if has_partition(known, partition)]
        missing = sorted({partition.topic for partition in committed.keys() - set(partitions)})
        plan.notes += [f"{topic}: does not exist any more, skipped" for topic in missing]
    else:
        partitions = [
            TopicPartition(topic, number)
            for topic, numbers in scope.items()
            for number in (known[topic].partitions if numbers is None and topic in known else numbers or [0])
        ]
    for partition in partitions:
        check_partition(known, partition)
    if goal is Goal.OFFSET:
        new = await plan.within_log(admin, dict.fromkeys(partitions, value))
    elif goal is Goal.SHIFT:
        for partition in partitions:
            if partition not in committed:
                raise CommandError(f"group {group} has no committed offset for {partition} to shift")
        new = await plan.within_log(admin, {partition: committed[partition].offset + value for partition in partitions})
    elif goal is Goal.CURRENT:
        without = [partition for partition in partitions if partition not in committed]
        new = {partition: committed[partition].offset for partition in partitions if partition in committed}
        new |= await plan.at_time(admin, without, LATEST)
    else:
        times = {Goal.EARLIEST: EARLIEST, Goal.LATEST: LATEST, Goal.TIME: value, Goal.DURATION: value}
        new = await plan.at_time(admin, partitions, times[goal])
    plan.add(group, committed, new)


async def plan_rows(
    admin: Admin, plan: OffsetPlan, groups: Sequence[str], rows: Sequence[OffsetRow], path: Path
) -> None:
    """Plan the offsets that the lines of a file contain for these groups; lines of other groups are ignored."""
    if len(groups) > 1 and rows[0].group is None:
        raise CommandError(f"{path} names no groups in its lines (group,topic,partition,offset): give one group")
    known = await admin.describe_topics()
    for group in groups:
        wanted = {}
        for row in rows:
            if row.group in (None, group):
                check_partition(known, row.partition, f"{path}, line {row.line}: ")
                wanted[row.partition] = row.offset
        if not wanted:
            others = sorted({row.group for row in rows if row.group is not None})
            raise CommandError(f"{path} has no offsets of group {group}{suggest(group, others)}")
        plan.add(group, await admin.list_group_offsets(group), await plan.within_log(admin, wanted))


def _refusal(group: str, error: KafkaError) -> Exception:
    if error.code is not None and error.code.name == "UNKNOWN_MEMBER_ID":
        return CommandError(f"group {group} has members now: its offsets can be changed only while it has none")
    return error

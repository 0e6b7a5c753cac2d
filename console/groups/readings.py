"""Reads groups from the cluster: each broker has its own time limit, and one that does not answer is named.

A list of all groups costs one request to each broker. Members and lag of all groups cost, for each coordinator, one
ConsumerGroupDescribe, one DescribeGroups and one OffsetFetch for `GROUPS_AT_ONCE` groups, and one ListOffsets for each
leader.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from client.admin.admin import Admin
from client.admin.types import GroupDescription, GroupListing
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.offsets import LATEST
from client.errors import KafkaError, UnknownTopicOrPartitionError
from client.topic_partition import TopicPartition
from client.wire.metadata import BrokerMetadata, TopicMetadata
from console.watching.patience import PATIENCE_S, Problems

MAX_SUMMARIES: Final = 5000
"""Groups whose members and lag are read at most, the first ones by name."""
GROUPS_AT_ONCE: Final = 250
T = TypeVar("T")


class Listed(NamedTuple):
    """The groups of the brokers that answered, sorted, and a sentence about each of the others."""

    groups: list[GroupListing]
    problems: list[str]


class GroupSummary(NamedTuple):
    """One group in a list. `lag`: records by topic; partitions without a committed offset have none."""

    state: str
    members: int
    lag: Mapping[str, int]


class Summaries(NamedTuple):
    """The groups by id."""

    groups: Mapping[str, GroupSummary]
    problems: list[str]


class GroupReading(NamedTuple):
    """One group: its members, committed offsets, and the log end offsets of the partitions that concern it."""

    group: GroupDescription
    committed: Mapping[TopicPartition, OffsetAndMetadata]
    ends: Mapping[TopicPartition, int]
    problems: list[str]

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of a partition; None if there is none."""
        found = self.committed.get(partition)
        return None if found is None else found.offset

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the lag on a partition; None if it has no committed offset, or no leader that answers.

        A committed offset may lie beyond the end: records were deleted, or lost.
        """
        committed, end = self.committed_offset(partition), self.ends.get(partition)
        return None if committed is None or end is None else max(end - committed, 0)


async def list_groups(admin: Admin, brokers: Sequence[BrokerMetadata] | None = None) -> Listed:
    """List the groups of all brokers that answer. Raises KafkaError if none does.

    brokers: those of the cluster, if they are known.
    """
    problems = Problems()
    brokers = await brokers_of(admin) if brokers is None else brokers
    found = await problems.of_brokers({one.node_id: one.node_id for one in brokers}, admin.list_groups_of)
    groups = {one.group_id: one for part in found.values() for one in part}
    return Listed([groups[name] for name in sorted(groups)], problems.sentences)


async def brokers_of(admin: Admin) -> tuple[BrokerMetadata, ...]:
    """Return the brokers of the cluster. Raises KafkaError if none answers."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            return (await admin.describe_cluster()).brokers
    return (await admin.describe_cluster()).brokers  # of another broker: this one does not answer


async def ask_coordinators(
    groups: Iterable[GroupListing], ask: Callable[[list[str]], Awaitable[Mapping[str, T]]], problems: Problems
) -> dict[str, T]:
    """Return what the coordinators that answer say about groups. ask: is called with the groups of each."""
    by_coordinator: dict[int, list[str]] = {}
    for one in groups:
        by_coordinator.setdefault(one.coordinator, []).append(one.group_id)
    found = await problems.of_brokers(by_coordinator, ask)
    return {name: one for part in found.values() for name, one in part.items()}


async def read_summaries(admin: Admin) -> Summaries:
    """Read the members and the lag of all groups, as far as their coordinators answer."""
    listed = await list_groups(admin)
    by_coordinator: dict[int, list[str]] = {}
    for one in listed.groups[:MAX_SUMMARIES]:
        by_coordinator.setdefault(one.coordinator, []).append(one.group_id)
    described: dict[str, GroupDescription] = {}
    committed: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}

    async def read(names: Sequence[str]) -> None:
        for start in range(0, len(names), GROUPS_AT_ONCE):
            part = names[start : start + GROUPS_AT_ONCE]
            described.update(_successes(await admin.describe_groups(part)))
            committed.update(_successes(await admin.list_offsets_of_groups(part)))

    problems = Problems()
    await problems.of_brokers(by_coordinator, read)
    ends = await log_ends(admin, {partition for offsets in committed.values() for partition in offsets}, problems)
    summaries = {
        name: GroupSummary(group.state, len(group.members), _lag_by_topic(committed.get(name, {}), ends))
        for name, group in described.items()
    }
    return Summaries(summaries, list(dict.fromkeys([*listed.problems, *problems.sentences])))


async def read_group(admin: Admin, group_id: str) -> GroupReading:
    """Read one group. Raises GroupIdNotFoundError, and TimeoutError if its coordinator does not answer."""
    problems = Problems()
    async with asyncio.timeout(PATIENCE_S):
        group = await admin.describe_group(group_id)
        committed = await admin.list_group_offsets(group_id)
    assigned = {partition for member in group.members for partition in member.assignment or ()}
    ends = await log_ends(admin, assigned | committed.keys(), problems)
    return GroupReading(group, committed, ends, problems.sentences)


async def log_ends(admin: Admin, partitions: Iterable[TopicPartition], problems: Problems) -> dict[TopicPartition, int]:
    """Return the log end offsets of the partitions that exist and whose leaders answer."""
    wanted = set(partitions)
    topics = await existing_topics(admin, {one.topic for one in wanted})
    by_leader: dict[int, list[TopicPartition]] = {}
    without: list[TopicPartition] = []
    for partition in sorted(wanted):
        topic = topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if known is not None:
            (without if known.leader < 0 else by_leader.setdefault(known.leader, [])).append(partition)

    async def ask(part: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found = await admin.list_offsets(dict.fromkeys(part, LATEST))
        return {partition: one.offset for partition, one in found.items()}

    if without:
        problems.add(f"{without[0]}{' and others have' if len(without) > 1 else ' has'} no leader.")
    found = await problems.of_brokers(by_leader, ask)
    return {partition: offset for part in found.values() for partition, offset in part.items()}


async def existing_topics(admin: Admin, names: Iterable[str]) -> dict[str, TopicMetadata]:
    """Return those of these topics that exist."""
    wanted = set(names)
    if not wanted:
        return {}
    try:
        return await admin.describe_topics(wanted)
    except UnknownTopicOrPartitionError:
        known = await admin.describe_topics()
        return {name: known[name] for name in wanted & known.keys()}


def _successes(found: Mapping[str, T | KafkaError]) -> dict[str, T]:
    return {name: one for name, one in found.items() if not isinstance(one, KafkaError)}


def _lag_by_topic(
    committed: Mapping[TopicPartition, OffsetAndMetadata], ends: Mapping[TopicPartition, int]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for partition, offset in committed.items():
        if partition in ends:
            lag = max(ends[partition] - offset.offset, 0)
            found[partition.topic] = found.get(partition.topic, 0) + lag
    return found

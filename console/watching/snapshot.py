"""One look at the whole cluster, in bounded time: what a broker does not tell in time is missing, and is named.

The end offsets of at most 20,000 partitions and the lags of at most 200 groups are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from client.admin.admin import Admin
from client.admin.types import ClusterDescription, GroupDescription, LogDirDescription
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from client.wire.metadata import PartitionMetadata, TopicMetadata
from console.groups.readings import ask_coordinators, list_groups
from console.watching.patience import Problems

MAX_PARTITIONS: Final = 20_000
MAX_GROUPS: Final = 200
_GROUPS_AT_ONCE: Final = 8
_PARTITIONS_AT_ONCE: Final = 1000


class BrokerDisk(NamedTuple):
    """The log directories of a broker, in bytes; None for what the broker is too old to report."""

    used: int
    total: int | None
    usable: int | None
    failed_dirs: int
    log_dirs: int


class GroupState(NamedTuple):
    """A consumer group. The lag is in records; None if it is unknown, or if the group has no committed offsets."""

    state: str
    members: frozenset[str]
    lag: int | None


class Snapshot(NamedTuple):
    """The cluster at one time (ms since the epoch). Parts without an answer are empty.

    Groups are None if no broker has told of any, and one has not answered.
    """

    time_ms: int
    cluster: ClusterDescription
    topics: Mapping[str, TopicMetadata]
    ends: Mapping[TopicPartition, int]
    """High watermarks."""
    disks: Mapping[int, BrokerDisk]
    sizes: Mapping[TopicPartition, int]
    """Bytes of the leader's log."""
    groups: Mapping[str, GroupState] | None
    problems: tuple[str, ...]
    starts: Mapping[TopicPartition, int] = {}
    """Log start offsets."""
    has_all_groups: bool = True
    """Whether every broker has listed its groups, and told about them."""

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
        """Return all partitions."""
        return partitions_of(self.topics)


def partitions_of(topics: Mapping[str, TopicMetadata]) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
    """Return the partitions of topics."""
    for name, topic in topics.items():
        for number, partition in topic.partitions.items():
            yield TopicPartition(name, number), partition


async def take_snapshot(admin: Admin, time_ms: int) -> Snapshot:
    """Look at the cluster. Raises KafkaError if no broker answers."""
    topics = await admin.describe_topics()
    cluster = await admin.describe_cluster()
    problems = Problems()
    starts, ends, logs, (described, has_all) = await asyncio.gather(
        _offsets(admin, cluster, topics, EARLIEST, problems),
        _offsets(admin, cluster, topics, LATEST, problems),
        log_dirs(admin, (broker.node_id for broker in cluster.brokers), problems),
        _described_groups(admin, cluster, problems),
    )
    groups = await _with_lags(admin, described, ends, problems) if described or has_all else None
    return Snapshot(
        time_ms,
        cluster,
        topics,
        ends,
        {broker_id: _disk(dirs) for broker_id, dirs in logs.items()},
        _sizes(topics, logs),
        groups,
        tuple(problems.sentences),
        starts,
        has_all,
    )


async def log_dirs(
    admin: Admin, brokers: Iterable[int], problems: Problems, partitions: Iterable[TopicPartition] | None = None
) -> dict[int, list[LogDirDescription]]:
    """Return the log directories of the brokers that answer in time, with all replicas or those of some partitions."""
    part = None if partitions is None else list(partitions)
    return await problems.of_brokers(
        {broker_id: [broker_id] for broker_id in brokers}, lambda ids: admin.describe_log_dirs(ids, part)
    )


def _disk(dirs: list[LogDirDescription]) -> BrokerDisk:
    online = [one for one in dirs if not one.error_code]
    is_known = bool(online) and all(one.total_bytes >= 0 for one in online)
    return BrokerDisk(
        used=sum(replica.size_bytes for one in online for replica in one.replicas),
        total=sum(one.total_bytes for one in online) if is_known else None,
        usable=sum(one.usable_bytes for one in online) if is_known else None,
        failed_dirs=len(dirs) - len(online),
        log_dirs=len(dirs),
    )


def _sizes(
    topics: Mapping[str, TopicMetadata], logs: Mapping[int, list[LogDirDescription]]
) -> dict[TopicPartition, int]:
    leaders = {partition: one.leader for partition, one in partitions_of(topics)}
    return {
        partition: replica.size_bytes
        for broker_id, dirs in logs.items()
        for one in dirs
        for replica in one.replicas
        if not replica.is_future
        and leaders.get(partition := TopicPartition(replica.topic, replica.partition)) == broker_id
    }


async def _offsets(
    admin: Admin, cluster: ClusterDescription, topics: Mapping[str, TopicMetadata], which: int, problems: Problems
) -> dict[TopicPartition, int]:
    """which: EARLIEST or LATEST."""
    alive = {broker.node_id for broker in cluster.brokers}
    led = ((partition, one.leader) for partition, one in partitions_of(topics) if one.leader in alive)
    return await offsets(admin, dict(islice(led, MAX_PARTITIONS)), which, problems)


async def offsets(
    admin: Admin, leaders: Mapping[TopicPartition, int], which: int, problems: Problems
) -> dict[TopicPartition, int]:
    """Return an offset of each partition whose leader answers in time. leaders: broker ids. which: as `list_offsets`.

    A leader is asked for a part of its partitions at a time, so that neither side is busy with one request for long.
    """

    async def of_leader(broker_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for begin in range(0, len(partitions), _PARTITIONS_AT_ONCE):
            part = partitions[begin : begin + _PARTITIONS_AT_ONCE]
            asked = dict.fromkeys(part, which)
            answer = await problems.bounded(partial(admin.list_offsets, asked), f"Broker {broker_id}")
            if answer is None:
                break
            found |= {partition: one.offset for partition, one in answer.items()}
        return found

    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        by_leader.setdefault(leader, []).append(partition)
    answers = await asyncio.gather(*(of_leader(broker_id, part) for broker_id, part in by_leader.items()))
    return {partition: offset for answer in answers for partition, offset in answer.items()}


async def _described_groups(
    admin: Admin, cluster: ClusterDescription, problems: Problems
) -> tuple[dict[str, GroupDescription | KafkaError], bool]:
    """Return the groups of the brokers that answer, and whether all do."""
    listed = await list_groups(admin, cluster.brokers)
    for sentence in listed.problems:
        problems.add(sentence)
    groups = [one for one in listed.groups if one.protocol_type in ("consumer", "")][:MAX_GROUPS]
    described = await ask_coordinators(groups, admin.describe_groups, problems)
    return described, not listed.problems and len(described) == len(groups)


async def _with_lags(
    admin: Admin,
    described: Mapping[str, GroupDescription | KafkaError],
    ends: Mapping[TopicPartition, int],
    problems: Problems,
) -> dict[str, GroupState]:
    slots = asyncio.Semaphore(_GROUPS_AT_ONCE)
    lags: dict[str, int | None] = {}

    async def find_lag(group_id: str) -> None:
        async with slots:
            committed = await admin.list_group_offsets(group_id)
        known = [ends[one] - offset.offset for one, offset in committed.items() if one in ends and offset.offset >= 0]
        lags[group_id] = sum(max(0, lag) for lag in known) if known else None

    groups = {name: group for name, group in described.items() if isinstance(group, GroupDescription)}
    await problems.bounded(lambda: asyncio.gather(*map(find_lag, groups)), "The lag of some groups")
    return {
        name: GroupState(group.state, frozenset(one.member_id for one in group.members), lags.get(name))
        for name, group in groups.items()
    }

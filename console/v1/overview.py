"""The overview: health, rates, disks, lagging groups, and what changed recently.

Everything comes from the shared `Observer`; readers see the parts about topics and groups that they may describe.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from client.topic_partition import TopicPartition
from client.wire.metadata import PartitionMetadata
from console.rest.call import Call
from console.rest.operation import ApiOperation, Right
from console.rest.plain_answer import PlainAnswer
from console.watching.changes import Change
from console.watching.snapshot import Snapshot
from security.acls.types import Operation, ResourceType

SHOWN_PARTITIONS: Final = 20
SHOWN_GROUPS: Final = 8
SHOWN_CHANGES: Final = 50


@dataclass
class PartitionSummary(PlainAnswer):
    """A partition that is not as it should be."""

    topic: str
    partition: int
    leader: int | None
    replicas: list[int]
    isr: list[int]


@dataclass
class Trouble(PlainAnswer):
    """How many partitions have a problem, and the first of them."""

    count: int
    partitions: list[PartitionSummary]


@dataclass
class Disk(PlainAnswer):
    """The log directories of a broker, in bytes. null: unknown."""

    broker_id: int
    used_bytes: int | None
    total_bytes: int | None
    usable_bytes: int | None
    failed_log_dirs: int


@dataclass
class LaggingGroup(PlainAnswer):
    """A consumer group that has records left to read."""

    group_id: str
    state: str
    members: int
    lag: int


@dataclass
class ChangeSeen(PlainAnswer):
    """A change of the cluster, with what it is about."""

    time_ms: int
    text: str
    topic: str | None
    group: str | None
    broker: int | None


@dataclass
class RatePoint(PlainAnswer):
    """Rates per second up to a time. null: unknown."""

    time_ms: int
    values: list[float | None]


@dataclass
class TrafficHistory(PlainAnswer):
    """Requests, bytes produced and bytes fetched per second of the broker that serves this console."""

    broker_id: int
    points: list[RatePoint]


@dataclass
class Overview(PlainAnswer):
    """The answer of `/overview`."""

    time_ms: int
    problems: list[str]
    """What could not be found out, one sentence each."""
    bootstrap_servers: str
    controller_id: int | None
    """null: the brokers say that there is none. If it is not the id of a live broker, the controller is not known."""
    topics: int
    internal_topics: int
    partitions: int
    offline: Trouble
    under_replicated: Trouble
    disks: list[Disk]
    groups: int | None
    """null: none is known, and not all brokers have answered."""
    has_all_groups: bool
    """Whether every broker has told about its groups."""
    lagging_groups: list[LaggingGroup]
    changes: list[ChangeSeen]
    rates: list[RatePoint]
    """Records and bytes appended per second, over all topics that are not internal."""
    traffic: TrafficHistory | None


async def get_overview(call: Call) -> Overview:
    """Sum up the cluster. Rates and changes begin when somebody looks first, and go back an hour."""
    services = call.services
    seen = await services.observer.look(call.admin, services.inside)
    topics = {name: topic for name, topic in seen.topics.items() if call.sees_topic(name)}
    partitions = [(name, one) for name, one in seen.partitions() if name.topic in topics]
    alive = {broker.node_id for broker in seen.cluster.brokers}
    internal = sum(topic.is_internal for topic in topics.values())
    lagging = _lagging(call, seen)
    return Overview(
        time_ms=seen.time_ms,
        problems=list(seen.problems),
        bootstrap_servers=",".join(f"{one.host}:{one.port}" for one in seen.cluster.brokers[:3]),
        controller_id=seen.cluster.controller_id if seen.cluster.controller_id >= 0 else None,
        topics=len(topics) - internal,
        internal_topics=internal,
        partitions=len(partitions),
        offline=_trouble(one for one in partitions if one[1].leader not in alive),
        under_replicated=_trouble(one for one in partitions if len(one[1].isr) < len(one[1].replicas)),
        disks=[_disk(seen, broker.node_id) for broker in seen.cluster.brokers],
        groups=_groups(call, seen),
        has_all_groups=seen.has_all_groups,
        lagging_groups=lagging[:SHOWN_GROUPS],
        changes=list(islice((_change(one) for one in services.observer.changes if _sees(call, one)), SHOWN_CHANGES)),
        rates=[RatePoint(time_ms=time_ms, values=list(values)) for time_ms, values in services.observer.rates],
        traffic=_traffic(call),
    )


def _trouble(partitions: Iterable[tuple[TopicPartition, PartitionMetadata]]) -> Trouble:
    found = list(partitions)
    return Trouble(
        count=len(found),
        partitions=[
            PartitionSummary(
                topic=name.topic,
                partition=name.partition,
                leader=one.leader if one.leader >= 0 else None,
                replicas=list(one.replicas),
                isr=list(one.isr),
            )
            for name, one in found[:SHOWN_PARTITIONS]
        ],
    )


def _disk(seen: Snapshot, broker_id: int) -> Disk:
    disk = seen.disks.get(broker_id)
    return Disk(
        broker_id=broker_id,
        used_bytes=None if disk is None else disk.used,
        total_bytes=None if disk is None else disk.total,
        usable_bytes=None if disk is None else disk.usable,
        failed_log_dirs=0 if disk is None else disk.failed_dirs,
    )


def _groups(call: Call, seen: Snapshot) -> int | None:
    known = sum(_sees_group(call, name) for name in seen.groups or ())
    return known if known or seen.has_all_groups else None


def _lagging(call: Call, seen: Snapshot) -> list[LaggingGroup]:
    found = [
        LaggingGroup(group_id=name, state=group.state, members=len(group.members), lag=group.lag)
        for name, group in (seen.groups or {}).items()
        if group.lag and _sees_group(call, name)
    ]
    return sorted(found, key=lambda one: (-one.lag, one.group_id))


def _traffic(call: Call) -> TrafficHistory | None:
    inside = call.services.inside
    if inside is None:
        return None
    points = call.services.observer.traffic_rates
    return TrafficHistory(
        broker_id=inside.broker_id,
        points=[RatePoint(time_ms=time_ms, values=list(values)) for time_ms, values in points],
    )


def _change(change: Change) -> ChangeSeen:
    return ChangeSeen(**change._asdict())


def _sees(call: Call, change: Change) -> bool:
    if change.topic is not None:
        return call.sees_topic(change.topic)
    return change.group is None or _sees_group(call, change.group)


def _sees_group(call: Call, name: str) -> bool:
    return call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, name)


OPERATIONS: Final = (ApiOperation("GET", "/overview", get_overview, Right(Operation.DESCRIBE), Overview),)

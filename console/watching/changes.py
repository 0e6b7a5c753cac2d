"""What differs between two snapshots: topics, leaders, brokers, the controller, groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from client.topic_partition import TopicPartition
from console.watching.snapshot import Snapshot

MANY_TOPICS: Final = 5
"""More topics whose leaders move from one broker to another are one change."""
_REBALANCES: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class Change(NamedTuple):
    """A change that was seen at a time (ms since the epoch). `topic`, `group` and `broker` are what it is about."""

    time_ms: int
    text: str
    topic: str | None = None
    group: str | None = None
    broker: int | None = None


def changes(before: Snapshot, after: Snapshot) -> list[Change]:
    """Return what differs, in the order of brokers, topics, leaders, groups."""
    return [
        *_of_brokers(before, after),
        *_of_topics(before, after),
        *_of_leaders(before, after),
        *_of_groups(before, after),
    ]


def _of_brokers(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = ({broker.node_id for broker in one.cluster.brokers} for one in (before, after))
    for broker_id in sorted(old - new):
        yield Change(after.time_ms, "left the cluster", broker=broker_id)
    for broker_id in sorted(new - old):
        yield Change(after.time_ms, "joined the cluster", broker=broker_id)
    controller = after.cluster.controller_id
    if controller != before.cluster.controller_id and controller >= 0:
        yield Change(after.time_ms, "became the controller", broker=controller)


def _of_topics(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    for name in sorted(before.topics.keys() - after.topics.keys()):
        yield Change(after.time_ms, "deleted", topic=name)
    for name, topic in after.topics.items():
        old = before.topics.get(name)
        partitions = len(topic.partitions)
        if old is None:
            yield Change(after.time_ms, f"created with {_counted(partitions, 'partition')}", topic=name)
        elif old.topic_id != topic.topic_id:
            yield Change(after.time_ms, "deleted and recreated", topic=name)
        elif len(old.partitions) < partitions:
            text = f"has {_counted(partitions, 'partition')} now, {len(old.partitions)} before"
            yield Change(after.time_ms, text, topic=name)


def _of_leaders(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    moved: dict[tuple[int, int], list[TopicPartition]] = {}
    old_leaders = {partition: one.leader for partition, one in before.partitions()}
    for partition, one in after.partitions():
        old = old_leaders.get(partition, one.leader)
        if old != one.leader:
            moved.setdefault((old, one.leader), []).append(partition)
    for (old, new), partitions in sorted(moved.items()):
        topics = Counter(partition.topic for partition in partitions)
        if len(topics) > MANY_TOPICS:
            count = f"{_counted(len(partitions), 'partition')} of {len(topics)} topics"
            yield Change(after.time_ms, f"{count}: {_move(old, new)}")
            continue
        for name, count_of_topic in topics.items():
            yield Change(after.time_ms, f"{_counted(count_of_topic, 'partition')}: {_move(old, new)}", topic=name)


def _move(old: int, new: int) -> str:
    if new < 0:
        return f"no leader; it was broker {old}"
    if old < 0:
        return f"broker {new} leads; there was no leader"
    return f"leader moved from broker {old} to broker {new}"


def _of_groups(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    if before.groups is None or after.groups is None:
        return
    for name in sorted(before.groups.keys() - after.groups.keys()) if after.has_all_groups else ():
        yield Change(after.time_ms, "deleted", group=name)
    for name, group in after.groups.items():
        old = before.groups.get(name)
        if old is None:
            if not before.has_all_groups:
                continue  # its broker has not told of it before
            yield Change(after.time_ms, f"new, with {_counted(len(group.members), 'member')}", group=name)
        elif old.members != group.members:
            yield Change(after.time_ms, f"rebalanced: {_counted(len(group.members), 'member')}", group=name)
        elif group.state in _REBALANCES and old.state not in _REBALANCES:
            yield Change(after.time_ms, "rebalances", group=name)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

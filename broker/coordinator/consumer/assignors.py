"""The assignors of consumer groups, which compute target assignments.

Each partition of a subscribed topic is assigned to exactly one subscriber of the topic. `group.consumer.assignors`
accepts the name of an assignor or the name of its class in Kafka.

- `uniform` makes the numbers of partitions per member as equal as the subscriptions allow, and keeps as much of the
  current target assignment as that permits. uniform_assignor.py handles members with different subscriptions.
- `range` assigns to each subscriber a range of the topic's partitions. Members are ordered: static members first, by
  instance id, then the others by member id. For topics with the same subscribers and the same number of partitions, a
  member gets the same partition numbers.

Pure. Source: KIP-848; UniformAssignor, RangeAssignor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.coordinator.consumer.member import Assignment
from broker.coordinator.consumer.uniform_assignor import balance

KAFKA_PACKAGE = "org.apache.kafka.coordinator.group.assignor."


class Subscriber(NamedTuple):
    """A member, as input of an assignor."""

    instance_id: str | None
    topics: frozenset[bytes]
    """The ids of the subscribed topics that exist."""
    current: Assignment
    """The member's target assignment until now."""


Subscribers = Mapping[str, Subscriber]
Sizes = Mapping[bytes, int]
Assignments = dict[str, dict[bytes, frozenset[int]]]
Assignor = Callable[[Subscribers, Sizes], Assignments]


def uniform(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """Return the assignments of the uniform assignor by member id. sizes: numbers of partitions by topic id."""
    if len({subscriber.topics for subscriber in subscribers.values()}) > 1:
        return balance(subscribers, sizes)
    return _uniform_alike(subscribers, sizes)


def _uniform_alike(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """Assign for equal subscriptions: the members' numbers of partitions differ by at most one."""
    if not subscribers:
        return {}
    topics = next(iter(subscribers.values())).topics
    minimum, extra = divmod(sum(sizes[topic] for topic in topics), len(subscribers))
    assigned: Assignments = {}
    room: dict[str, int] = {}
    taken: set[tuple[bytes, int]] = set()
    # Members with most partitions come first and get the `extra` partitions above the minimum, so that they keep most.
    valid = {
        member_id: [
            (topic, partition)
            for topic, partitions in subscriber.current.items()
            if topic in topics
            for partition in sorted(partitions)
            if partition < sizes[topic]
        ]
        for member_id, subscriber in subscribers.items()
    }
    for member_id in sorted(valid, key=lambda one: -len(valid[one])):
        quota = minimum + (extra > 0)
        extra = max(extra - 1, 0)
        kept: dict[bytes, set[int]] = {}
        for topic, partition in valid[member_id]:
            if quota and (topic, partition) not in taken:
                quota -= 1
                taken.add((topic, partition))
                kept.setdefault(topic, set()).add(partition)
        assigned[member_id] = {topic: frozenset(partitions) for topic, partitions in kept.items()}
        room[member_id] = quota
    free = [
        (topic, partition)
        for topic in sorted(topics)
        for partition in range(sizes[topic])
        if (topic, partition) not in taken
    ]
    place = 0
    for member_id, quota in room.items():
        more: dict[bytes, set[int]] = {}
        for topic, partition in free[place : place + quota]:
            more.setdefault(topic, set()).add(partition)
        place += quota
        for topic, partitions in more.items():
            assigned[member_id][topic] = assigned[member_id].get(topic, frozenset()) | partitions
    return assigned


def ranges(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """Return the assignments of the range assignor by member id. sizes: numbers of partitions by topic id."""
    counts = Counter(topic for subscriber in subscribers.values() for topic in subscriber.topics)
    extra = {topic: sizes[topic] % count for topic, count in counts.items()}
    next_partition = dict.fromkeys(counts, 0)
    assigned: Assignments = {}

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = subscribers[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    for member_id in sorted(subscribers, key=place):
        own = assigned[member_id] = {}
        for topic in subscribers[member_id].topics:
            start = next_partition[topic]
            end = start + sizes[topic] // counts[topic] + (extra[topic] > 0)
            extra[topic] = max(extra[topic] - 1, 0)
            next_partition[topic] = end
            if start < end:
                own[topic] = frozenset(range(start, end))
    return assigned


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": ranges}

_CLASSES = {f"{KAFKA_PACKAGE}UniformAssignor": "uniform", f"{KAFKA_PACKAGE}RangeAssignor": "range"}


def assignor_name(setting: str) -> str | None:
    """Return the name of an assignor in `group.consumer.assignors`; None if there is no such assignor."""
    name = _CLASSES.get(setting, setting)
    return name if name in ASSIGNORS else None

"""The assignors of consumer groups: which member owns which partitions of the topics that members are subscribed to.

Every partition that somebody is subscribed to goes to exactly one of its subscribers. What a member has stays with it
as far as balance allows. Both names of an assignor work in `group.consumer.assignors`: its own and its class in Kafka.

- `uniform` makes the numbers of partitions as equal as the subscriptions allow (see consumer_uniform.py where these
  differ from member to member).
- `range` gives each member a range of every topic. Topics of equal size are so partitioned alike, and members with the
  same place in the order get the same numbers. Static members come first, by instance id, others by member id.

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
    """A member, for an assignor."""

    instance_id: str | None
    topics: frozenset[bytes]
    """The ids of those topics that exist."""
    current: Assignment
    """Its target assignment so far."""


Subscribers = Mapping[str, Subscriber]
Sizes = Mapping[bytes, int]
Assignments = dict[str, dict[bytes, frozenset[int]]]
Assignor = Callable[[Subscribers, Sizes], Assignments]


def uniform(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """By member id; sizes: partitions of each topic by its id."""
    if len({subscriber.topics for subscriber in subscribers.values()}) > 1:
        return balance(subscribers, sizes)
    return _uniform_alike(subscribers, sizes)


def _uniform_alike(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """All are subscribed to the same: nobody gets two partitions more than another one."""
    if not subscribers:
        return {}
    topics = next(iter(subscribers.values())).topics
    minimum, extra = divmod(sum(sizes[topic] for topic in topics), len(subscribers))
    assigned: Assignments = {}
    room: dict[str, int] = {}
    taken: set[tuple[bytes, int]] = set()
    # Who has most keeps most: the places above the minimum are theirs before anybody else's.
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
    """By member id; sizes: partitions of each topic by its id."""
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
    """The name of an assignor as `group.consumer.assignors` has it; None for one that there is not."""
    name = _CLASSES.get(setting, setting)
    return name if name in ASSIGNORS else None

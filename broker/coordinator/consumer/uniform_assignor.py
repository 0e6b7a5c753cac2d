"""The uniform assignor for members with different subscriptions. The load of a member is its number of partitions.

1. Each member keeps the partitions of its current target assignment whose topics it is still subscribed to.
2. The free partitions of each topic are assigned to the least loaded subscribers. The topics with most partitions per
   subscriber come first, since they leave least choice.
3. Partitions move from more to less loaded members until the assignment is balanced.

Step 3 moves partitions along chains: if A can only give partitions to B, and B only to C, and A has at least two more
partitions than C, then one partition moves from A to B and another one from B to C. (Kafka considers only pairs of
members, in at most 16 iterations, and may stop before the assignment is balanced.) Each move along a chain reduces the
sum of the squares of the loads, so that the algorithm terminates. The result is balanced: there is no chain from a
member to another one with at least two partitions fewer.
Pure. Source: UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.coordinator.consumer.assignors import Assignments, Sizes, Subscribers


def balance(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """Return the assignments by member id. sizes: numbers of partitions by topic id."""
    return _Balancer(subscribers, sizes).result()


class _Balancer:
    """Computes one assignment."""

    def __init__(self, subscribers: Subscribers, sizes: Sizes) -> None:
        self._of_topic: dict[bytes, list[str]] = {}
        for member_id, subscriber in subscribers.items():
            for topic in subscriber.topics:
                self._of_topic.setdefault(topic, []).append(member_id)
        self._owned: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in subscribers}
        self._load = dict.fromkeys(subscribers, 0)
        free = {topic: set(range(sizes[topic])) for topic in self._of_topic}
        for member_id, subscriber in subscribers.items():
            for topic, partitions in subscriber.current.items():
                if topic in subscriber.topics:
                    for partition in sorted(partitions & free[topic]):
                        self._give(member_id, topic, partition)
                        free[topic].remove(partition)
        for topic in sorted(free, key=lambda one: (-sizes[one] / len(self._of_topic[one]), one)):
            for partition in sorted(free[topic]):
                self._give(min(self._of_topic[topic], key=self._load.__getitem__), topic, partition)
        self._topics = {member_id: sorted(subscriber.topics) for member_id, subscriber in subscribers.items()}
        while self._improve():
            pass

    def _give(self, member_id: str, topic: bytes, partition: int) -> None:
        self._owned[member_id].setdefault(topic, []).append(partition)
        self._load[member_id] += 1

    def _improve(self) -> bool:
        """Move partitions along one chain, from the most loaded member that has one. Returns False if there is none."""
        stuck: set[str] = set()
        for member_id in sorted(self._load, key=lambda one: -self._load[one]):
            if member_id in stuck:
                continue
            reached = self._chains(member_id)
            end = min(reached, key=self._load.__getitem__)
            if self._load[end] <= self._load[member_id] - 2:
                self._hand_on(member_id, end, reached)
                return True
            # A reached member without a higher load cannot start a chain: it reaches only members that are reached
            # from here, and their loads are too high.
            stuck.update(one for one in reached if self._load[one] <= self._load[member_id])
        return False

    def _chains(self, start: str) -> Mapping[str, tuple[str, bytes] | None]:
        """Return the members that `start` can move a partition to along a chain, itself included.

        The value is the last link of the shortest chain, as (giving member, topic); None for `start`.
        """
        reached: dict[str, tuple[str, bytes] | None] = {start: None}
        seen_topics: set[bytes] = set()
        waiting = deque([start])
        while waiting:
            member_id = waiting.popleft()
            for topic, partitions in self._owned[member_id].items():
                if not partitions or topic in seen_topics:
                    continue
                seen_topics.add(topic)
                for other in self._of_topic[topic]:
                    if other not in reached:
                        reached[other] = (member_id, topic)
                        waiting.append(other)
        return reached

    def _hand_on(self, start: str, end: str, reached: Mapping[str, tuple[str, bytes] | None]) -> None:
        member_id = end
        while member_id != start:
            link = reached[member_id]
            assert link is not None
            giver, topic = link
            self._owned[member_id].setdefault(topic, []).append(self._owned[giver][topic].pop())
            member_id = giver
        self._load[start] -= 1
        self._load[end] += 1

    def result(self) -> Assignments:
        """Return the assignments by member id."""
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in topics.items() if partitions}
            for member_id, topics in self._owned.items()
        }

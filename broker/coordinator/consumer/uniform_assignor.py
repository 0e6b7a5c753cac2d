"""The uniform assignor where members are subscribed to different topics.

Three steps: what a member has and is still subscribed to stays; each topic's free partitions go to its least loaded
subscribers, topics with most partitions a subscriber first, since they leave least choice; then partitions move from
more to less loaded members until nothing can be made better.

The last step moves along chains: where A may only give to B and B only to C, and A has two partitions more than C, one
moves from A to B and another from B to C. (Kafka looks at pairs only, at most 16 times around, and can stop earlier.)
Each chain moves one partition a link and makes the sum of squares of the loads smaller, so that it ends, and every
result is balanced: no partition can be handed on, along any chain, from a member to one with two fewer.
Pure. Source: UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.coordinator.consumer.assignors import Assignments, Sizes, Subscribers


def balance(subscribers: Subscribers, sizes: Sizes) -> Assignments:
    """By member id; sizes: partitions of each topic by its id."""
    return _Balancer(subscribers, sizes).result()


class _Balancer:
    """One assignment in the making."""

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
        """Hand partitions on from a most loaded member that can; False where none can."""
        stuck: set[str] = set()
        for member_id in sorted(self._load, key=lambda one: -self._load[one]):
            if member_id in stuck:
                continue
            reached = self._chains(member_id)
            end = min(reached, key=self._load.__getitem__)
            if self._load[end] <= self._load[member_id] - 2:
                self._hand_on(member_id, end, reached)
                return True
            # Whoever it can reach has no less to give to, being less loaded and reaching no more.
            stuck.update(one for one in reached if self._load[one] <= self._load[member_id])
        return False

    def _chains(self, start: str) -> Mapping[str, tuple[str, bytes] | None]:
        """Everybody that partitions can be handed on to, by whom it comes, of which topic; by the shortest chain."""
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
        """What has been made."""
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in topics.items() if partitions}
            for member_id, topics in self._owned.items()
        }

"""Assignors of classic groups: how the group's leader assigns partitions to members. Here: range and round robin.

The sticky assignors are in `sticky_assignor`. Assignors have Kafka's names, so that clients in any language can be
members of one group. Any member can be the leader.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple, Protocol

from client.consumer.subscription import Subscription
from client.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id, an entry for every member."""


class Member(NamedTuple):
    """A member as the group's leader sees it."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """The sort key: static members first, by instance id. So a restart changes nothing (KIP-345)."""
        return self.group_instance_id is None, self.group_instance_id or self.member_id


class Assignor(Protocol):
    """Assigns partitions to members. `is_cooperative`: members keep their partitions while they rejoin (KIP-429)."""

    name: str
    is_cooperative: bool

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """The user data that a member adds to its subscription, for the leader."""
        ...

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> Assignment:
        """Assign all partitions. `partitions` is the number of partitions of each topic that exists."""
        ...


class _Eager:
    """The base of assignors without state."""

    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """No user data."""
        return None


class RangeAssignor(_Eager):
    """Each member gets consecutive partitions of each topic; the first members get one more if there is a remainder.

    If topics have the same number of partitions, a member gets the same partition numbers in each of them.
    """

    name = "range"

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> Assignment:
        """See the class."""
        assignment: Assignment = {member.member_id: [] for member in members}
        for topic in sorted(partitions):
            takers = sorted((one for one in members if topic in one.subscription.topics), key=lambda one: one.order)
            if not takers:
                continue
            each, more = divmod(partitions[topic], len(takers))
            first = 0
            for index, taker in enumerate(takers):
                end = first + each + (index < more)
                assignment[taker.member_id] += [TopicPartition(topic, number) for number in range(first, end)]
                first = end
        return assignment


class RoundRobinAssignor(_Eager):
    """Assigns the partitions in order, each to the next member that is subscribed to its topic."""

    name = "roundrobin"

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> Assignment:
        """See the class."""
        assignment: Assignment = {member.member_id: [] for member in members}
        turns = cycle(sorted(members, key=lambda one: one.order))
        wanted = {topic for member in members for topic in member.subscription.topics}
        for topic in sorted(wanted & set(partitions)):
            for number in range(partitions[topic]):
                taker = next(one for one in turns if topic in one.subscription.topics)
                assignment[taker.member_id].append(TopicPartition(topic, number))
        return assignment

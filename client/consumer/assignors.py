"""How the leader of a classic group divides partitions among the members: range, round robin.

The sticky ones are in `sticky_assignor`. An assignor is known to the group by its name, which is Kafka's, so
members written in any language agree on one; which of them is the leader, and divides, is chance.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple, Protocol

from client.consumer.subscription import Subscription
from client.options import refuse
from client.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id, an entry for every member."""


class Member(NamedTuple):
    """A member of a group, as its leader sees it."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Static members first, by instance id: what they get does not change with a restart (KIP-345)."""
        return self.group_instance_id is None, self.group_instance_id or self.member_id


class Assignor(Protocol):
    """Divides partitions. `is_cooperative`: members keep their partitions while they rejoin (KIP-429)."""

    name: str
    is_cooperative: bool

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """What a member tells the leader beside its subscription."""
        ...

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> Assignment:
        """Divide. `partitions`: how many each topic has; topics that do not exist are missing."""
        ...


class _Eager:
    """What an assignor is that remembers nothing."""

    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """Nothing to tell."""
        return None


class RangeAssignor(_Eager):
    """Topic by topic: each member a run of neighbouring partitions, the first ones one more.

    Members that subscribe to several topics with the same number of partitions get the same numbers of each.
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
    """All partitions in order, one to each member in turn that subscribes to the topic."""

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


def make_assignors(option: object) -> tuple[Assignor, ...]:
    """The assignors that the option `partition_assignment_strategy` names: names, classes or objects, best first.

    Raises InvalidOptionError.
    """
    from client.consumer.sticky_assignor import CooperativeStickyAssignor, StickyAssignor

    name = "partition_assignment_strategy"
    known: dict[str, type[Assignor]] = {
        kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
    }
    wanted: list[Any] = [option] if isinstance(option, str) or not isinstance(option, Sequence) else list(option)
    made: list[Assignor] = []
    for one in wanted:
        if isinstance(one, str):
            if one not in known:
                raise refuse(name, one, "must be an assignor or one of " + ", ".join(known))
            made.append(known[one]())
        elif isinstance(one, type):
            made.append(one())
        elif hasattr(one, "assign"):
            made.append(one)
        else:
            raise refuse(name, one, "must be an assignor or one of " + ", ".join(known))
    if not made:
        raise refuse(name, option, "must name at least one assignor")
    return tuple(made)

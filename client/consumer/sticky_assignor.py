"""Assignors that balance the load and move as few partitions as possible (KIP-54); one is cooperative (KIP-429).

Each member reports the partitions that it had, with the generation. If two members claim a partition, the newer
generation wins; if the generations are equal, neither does. The assignment has three steps. Each member keeps its
partitions of topics that it still subscribes to. Each partition without an owner goes to the least loaded subscriber.
Then partitions move from more to less loaded members until no move improves the balance. Only this last step moves
partitions between members.

The cooperative assignor leaves out a partition that its old owner still has. The old owner gives it up and rejoins; the
second rebalance assigns the partition. Members read all other partitions meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from client.consumer.assignors import Assignment, Member
from client.topic_partition import TopicPartition
from protocol.errors import ProtocolError
from protocol.fields import array, int32, string
from protocol.message import Message


class PreviousTopic(Message):
    """Partitions of one topic that a member had."""

    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class StickyUserData(Message, versions="0-1"):
    """The user data of "sticky" as Kafka's clients encode it: without a version at the start."""

    previous_assignment: list[PreviousTopic] = array(PreviousTopic, "0+")
    generation: int = int32("1+", default=-1)


class CooperativeUserData(Message, versions="0"):
    """The user data of "cooperative-sticky", for leaders that do not know newer versions of the subscription."""

    generation: int = int32("0+", default=-1)


Claims = dict[TopicPartition, tuple[int, str | None]]
"""The generation and the last owner of each partition; None if two members claim it in the same generation."""


def divide(members: Sequence[Member], partitions: Mapping[str, int], claims: Claims) -> Assignment:
    """Balance the load and stay close to the claims. See the module."""
    assignment: Assignment = {member.member_id: [] for member in members}
    order = {member.member_id: member.order for member in members}
    takers: dict[str, list[str]] = {}
    for member in sorted(members, key=lambda one: one.order):
        for topic in member.subscription.topics:
            if topic in partitions:
                takers.setdefault(topic, []).append(member.member_id)
    free: list[TopicPartition] = []
    for topic in sorted(takers):
        for number in range(partitions[topic]):
            partition = TopicPartition(topic, number)
            _, owner = claims.get(partition, (-1, None))
            if owner is not None and owner in takers[topic]:
                assignment[owner].append(partition)
            else:
                free.append(partition)

    def load(member_id: str) -> tuple[int, tuple[bool, str]]:
        return len(assignment[member_id]), order[member_id]

    free.sort(key=lambda one: len(takers[one.topic]))  # partitions with few subscribers first
    for partition in free:
        assignment[min(takers[partition.topic], key=load)].append(partition)
    _balance(assignment, takers, load)
    return {member_id: sorted(owned) for member_id, owned in assignment.items()}


def _balance(
    assignment: Assignment, takers: Mapping[str, Sequence[str]], load: Callable[[str], tuple[int, tuple[bool, str]]]
) -> None:
    """Move partitions from the most loaded members to members that have at least two less, until none can move."""

    def move_one() -> bool:
        for member_id in sorted(assignment, key=load, reverse=True):
            owned = assignment[member_id]
            least_loaded = {topic: min(takers[topic], key=load) for topic in {partition.topic for partition in owned}}
            for partition in sorted(owned, reverse=True):
                taker = assignment[least_loaded[partition.topic]]
                if len(taker) + 1 < len(owned):
                    owned.remove(partition)
                    taker.append(partition)
                    return True
        return False

    while move_one():
        pass


def _claim(claims: Claims, member_id: str, owned: Sequence[TopicPartition], generation_id: int) -> None:
    for partition in owned:
        known = claims.get(partition)
        if known is None or known[0] < generation_id:
            claims[partition] = (generation_id, member_id)
        elif known[0] == generation_id:
            claims[partition] = (generation_id, None)


class StickyAssignor:
    """Balanced and sticky, with the eager protocol: members give up all partitions before a rebalance."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """The partitions that this member had before it gave them up for this rebalance."""
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(owned):
            topics.setdefault(topic, []).append(number)
        previous = [PreviousTopic(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
        return StickyUserData(previous_assignment=previous, generation=generation_id).to_bytes(1)

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> Assignment:
        """See the module."""
        claims: Claims = {}
        for member in members:
            owned, generation_id = _previous(member.subscription.user_data or b"")
            _claim(claims, member.member_id, owned, generation_id)
        return divide(members, partitions, claims)


def _previous(data: bytes) -> tuple[list[TopicPartition], int]:
    """The partitions and the generation that a member reports; none if its user data cannot be decoded."""
    for version in (1, 0):
        try:
            told, _ = StickyUserData.decode(data, version, 0)
        except ProtocolError:
            continue
        return [TopicPartition(one.topic, number) for one in told.previous_assignment for number in one.partitions], (
            told.generation
        )
    return [], -1


class CooperativeStickyAssignor:
    """Balanced and sticky; during a rebalance members go on reading all partitions that do not move."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """The generation in which the member got its partitions."""
        return CooperativeUserData(generation=generation_id).to_bytes(0)

    def assign(self, members: Sequence[Member], partitions: Mapping[str, int]) -> Assignment:
        """See the module."""
        claims: Claims = {}
        for member in members:
            _claim(claims, member.member_id, member.subscription.owned, _generation(member))
        assignment = divide(members, partitions, claims)
        had = {partition: one.member_id for one in members for partition in one.subscription.owned}
        return {
            member_id: [partition for partition in given if had.get(partition, member_id) == member_id]
            for member_id, given in assignment.items()
        }


def _generation(member: Member) -> int:
    if member.subscription.generation_id >= 0:
        return member.subscription.generation_id
    try:
        return CooperativeUserData.decode(member.subscription.user_data or b"", 0, 0)[0].generation
    except ProtocolError:
        return -1

"""Assignors that divide evenly and move as few partitions as that takes (KIP-54); one is cooperative (KIP-429).

Members tell what they had and in which generation; where two claim a partition the newer generation counts, and among
equal ones nobody. Then: everybody keeps what is still wanted; what is nobody's goes to the least loaded who wants it;
partitions move from the more to the less loaded until no move makes it more even. A partition moves only in that last
step, so as few move as can.

The cooperative one leaves out of the answer what another member has still to give up. That member rejoins when it has
done so, and the partition finds its new owner in that second rebalance; all the others are read on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from client.consumer.assignors import Assignment, Member
from client.topic_partition import TopicPartition
from protocol.errors import ProtocolError
from protocol.fields import array, int32, string
from protocol.message import Message


class PreviousTopic(Message):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class StickyUserData(Message, versions="0-1"):
    """What members of "sticky" tell, as Kafka's clients write it: there is no version in front."""

    previous_assignment: list[PreviousTopic] = array(PreviousTopic, "0+")
    generation: int = int32("1+", default=-1)


class CooperativeUserData(Message, versions="0"):
    """What members of "cooperative-sticky" tell, for leaders that read no newer subscription."""

    generation: int = int32("0+", default=-1)


Claims = dict[TopicPartition, tuple[int, str | None]]
"""Who had a partition: the generation, and the member; None where two members say so of the same generation."""


def divide(members: Sequence[Member], partitions: Mapping[str, int], claims: Claims) -> Assignment:
    """An even assignment close to what members claim. See the module."""
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

    free.sort(key=lambda one: len(takers[one.topic]))  # those first that few can take
    for partition in free:
        assignment[min(takers[partition.topic], key=load)].append(partition)
    _balance(assignment, takers, load)
    return {member_id: sorted(owned) for member_id, owned in assignment.items()}


def _balance(
    assignment: Assignment, takers: Mapping[str, Sequence[str]], load: Callable[[str], tuple[int, tuple[bool, str]]]
) -> None:
    """Move a partition from the most loaded to a member with at least two less, until none can move."""

    def move_one() -> bool:
        for member_id in sorted(assignment, key=load, reverse=True):
            owned = assignment[member_id]
            lightest = {topic: min(takers[topic], key=load) for topic in {partition.topic for partition in owned}}
            for partition in sorted(owned, reverse=True):
                taker = assignment[lightest[partition.topic]]
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
    """Even, and sticky; everything stops while the group rebalances."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """What this member had: it has given it up by the time it is asked (the eager protocol)."""
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
    """What a member says it had; nothing where it says nothing that can be read."""
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
    """Even, and sticky; members read on while the group rebalances, but for the partitions that move."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation_id: int) -> bytes | None:
        """The generation of what is owned."""
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

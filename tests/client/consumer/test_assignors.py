"""Assignors: every partition has one owner who wants it, evenly; the sticky ones move as few as can be."""

import itertools
import random
import warnings
from types import SimpleNamespace

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as TheirSticky

from client.consumer.assignor_option import make_assignors
from client.consumer.assignors import Member, RangeAssignor, RoundRobinAssignor
from client.consumer.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from client.consumer.subscription import Subscription, decode_assignment, encode_assignment
from client.errors import InvalidOptionError
from client.topic_partition import TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

SEEDS = range(60)


def member(name, *topics, owned=(), generation=-1, instance=None, user_data=None):
    owned = tuple(TopicPartition(topic, number) for topic, number in owned)
    return Member(name, Subscription(topics, owned, generation, None, user_data), instance)


def flat(assignment):
    return {name: [f"{topic}{number}" for topic, number in given] for name, given in assignment.items()}


def test_range():
    four = {"t": 4}
    divide = RangeAssignor().assign
    assert flat(divide([member(name, "t") for name in "abc"], four)) == {"a": ["t0", "t1"], "b": ["t2"], "c": ["t3"]}
    assert flat(divide([member(name, "t") for name in "cba"], four)) == {"a": ["t0", "t1"], "b": ["t2"], "c": ["t3"]}
    both = [member("a", "t", "u"), member("b", "u", "t"), member("c", "v")]
    assert flat(divide(both, {"t": 3, "u": 3})) == {"a": ["t0", "t1", "u0", "u1"], "b": ["t2", "u2"], "c": []}
    static = [member("b", "t"), member("a", "t"), member("z", "t", instance="i")]
    assert flat(divide(static, four)) == {"z": ["t0", "t1"], "a": ["t2"], "b": ["t3"]}


def test_round_robin():
    divide = RoundRobinAssignor().assign
    three = [member(name, "t", "u") for name in "ab"]
    assert flat(divide(three, {"t": 3, "u": 3})) == {"a": ["t0", "t2", "u1"], "b": ["t1", "u0", "u2"]}
    mixed = [member("a", "t"), member("b", "t", "u"), member("c")]
    assert flat(divide(mixed, {"t": 2, "u": 2})) == {"a": ["t0"], "b": ["t1", "u0", "u1"], "c": []}


class Partitions:
    """What kafka-python's assignors ask of a cluster."""

    def __init__(self, counts):
        self.counts = counts

    def partitions_for_topic(self, topic):
        return set(range(self.counts[topic])) if topic in self.counts else None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("ours", "theirs"), [(RangeAssignor, RangePartitionAssignor), (RoundRobinAssignor, RoundRobinPartitionAssignor)]
)
def test_like_kafka_python(ours, theirs, seed):
    rng = random.Random(seed)
    topics = ["t", "u", "v"][: rng.randint(1, 3)]
    counts = {topic: rng.randint(1, 9) for topic in topics}
    wanted = {f"m{at}": sorted(rng.sample(topics, rng.randint(1, len(topics)))) for at in range(rng.randint(1, 6))}
    if ours is RoundRobinAssignor:  # theirs stumbles over members that want different topics
        wanted = dict.fromkeys(wanted, topics)
    joined = [
        SimpleNamespace(member_id=name, group_instance_id=None, metadata=theirs.metadata(of))
        for name, of in wanted.items()
    ]
    their = theirs.assign(Partitions(counts), joined)
    mine = ours().assign([member(name, *of) for name, of in wanted.items()], counts)
    assert {name: sorted(map(tuple, one.partitions())) for name, one in their.items()} == {
        name: sorted(given) for name, given in mine.items()
    }


# -- sticky ----------------------------------------------------------------------------------------------------------


def is_even(assignment, members):
    """Nobody who wants a partition has two less than its owner."""
    wanted = {one.member_id: one.subscription.topics for one in members}
    return not any(
        len(assignment[other]) + 1 < len(given)
        for given in assignment.values()
        for partition in given
        for other in assignment
        if partition.topic in wanted[other]
    )


def is_whole(assignment, members, counts):
    """Everything that somebody wants has one owner, who wants it."""
    wanted = {one.member_id: one.subscription.topics for one in members}
    given = sorted(itertools.chain.from_iterable(assignment.values()))
    topics = {topic for of in wanted.values() for topic in of}
    everything = [
        TopicPartition(topic, number) for topic in sorted(topics & set(counts)) for number in range(counts[topic])
    ]
    return given == everything and all(one.topic in wanted[name] for name in assignment for one in assignment[name])


def told(assignor, name, topics, owned, generation):
    """A member as it joins again."""
    subscription = Subscription(tuple(topics), tuple(owned) if assignor.is_cooperative else (), generation)
    return Member(name, subscription._replace(user_data=assignor.user_data(owned, generation)))


@pytest.mark.parametrize("same", [True, False], ids=["same topics", "different topics"])
@pytest.mark.parametrize("seed", SEEDS)
def test_sticky_is_balanced_complete_and_moves_little(seed, same):
    rng = random.Random(seed)
    counts = {topic: rng.randint(1, 12) for topic in "tuv"}
    names = [f"m{at}" for at in range(rng.randint(1, 7))]
    topics = {name: list(counts) if same else rng.sample(list(counts), rng.randint(1, 3)) for name in names}
    assignor = StickyAssignor()
    assignment = {name: [] for name in names}
    for generation in range(6):
        members = [told(assignor, name, topics[name], assignment.get(name, []), generation - 1) for name in names]
        before = {partition: name for name, owned in assignment.items() for partition in owned}
        assignment = assignor.assign(members, counts)
        assert set(assignment) == set(names)
        assert is_whole(assignment, members, counts)
        assert is_even(assignment, members)
        if same and generation:
            stayed = sum(before.get(one) == name for name, owned in assignment.items() for one in owned)
            assert stayed == most_that_can_stay(before, names, sum(counts.values()))
        if rng.random() < 0.5 and len(names) > 1:
            gone = names.pop(rng.randrange(len(names)))
            assignment.pop(gone)
        else:
            names.append(f"n{generation}")
            topics[names[-1]] = list(counts) if same else rng.sample(list(counts), rng.randint(1, 3))


def most_that_can_stay(before, names, total):
    """Each may keep what it had up to its share; so many get one more as the shares do not come out even."""
    share, more = divmod(total, len(names))
    had = [sum(owner == name for owner in before.values()) for name in names]
    return sum(min(one, share) for one in had) + min(more, sum(one > share for one in had))


def test_sticky_uses_the_claim_of_the_newest_generation():
    assignor = StickyAssignor()
    t = [TopicPartition("t", number) for number in range(4)]
    stale = told(assignor, "a", ["t"], t[:3], 4)
    newer = told(assignor, "b", ["t"], t[1:3], 5)
    assert assignor.assign([stale, newer], {"t": 4}) == {"a": [t[0], t[3]], "b": [t[1], t[2]]}
    rivals = [told(assignor, "a", ["t"], t[:2], 5), told(assignor, "b", ["t"], t[1:2], 5)]
    assert assignor.assign(rivals, {"t": 2}) == {"a": [t[0]], "b": [t[1]]}
    unreadable = Member("c", Subscription(("t",), (), -1, None, b"\xff\xff"))
    assert assignor.assign([unreadable], {"t": 1}) == {"c": t[:1]}


def test_sticky_user_data_is_compatible_with_aiokafka():
    owned = [TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("u", 1)]
    told = SimpleNamespace(user_data=StickyAssignor().user_data(owned, 7), subscription=["t", "u"])
    read = TheirSticky.parse_member_metadata(told)
    assert (sorted(map(tuple, read.partitions)), read.generation) == (sorted(owned), 7)
    theirs = TheirSticky._metadata(["t", "u"], owned, 7).user_data
    joined = [Member("a", Subscription(("t", "u"), user_data=theirs)), member("b", "t", "u")]
    assert StickyAssignor().assign(joined, {"t": 3, "u": 2})["a"] == owned


@pytest.mark.parametrize("seed", SEEDS)
def test_cooperative_revokes_before_it_assigns(seed):
    rng = random.Random(seed)
    counts = {"t": rng.randint(1, 20), "u": rng.randint(1, 5)}
    assignor = CooperativeStickyAssignor()
    owned = {"a": []}
    for generation in range(12):
        if rng.random() < 0.4:
            if rng.random() < 0.5 and len(owned) > 1:
                owned.pop(rng.choice(sorted(owned)))
            else:
                owned[f"m{generation}"] = []
        members = [told(assignor, name, ["t", "u"], given, generation - 1) for name, given in owned.items()]
        assigned = assignor.assign(members, counts)
        had = {partition: name for name, given in owned.items() for partition in given}
        for name, given in assigned.items():
            assert all(had.get(partition, name) == name for partition in given)
        owned = assigned
    for generation in range(20, 22):  # nothing more happens: two rebalances and all is given, evenly
        members = [told(assignor, name, ["t", "u"], given, generation) for name, given in owned.items()]
        owned = assignor.assign(members, counts)
    assert is_whole(owned, members, counts)
    assert is_even(owned, members)


# -- options ---------------------------------------------------------------------------------------------------------


def test_assignors_are_given_as_names_classes_or_objects():
    mine = RangeAssignor()
    assert [one.name for one in make_assignors(("sticky", RoundRobinAssignor, mine))] == [
        "sticky",
        "roundrobin",
        "range",
    ]
    assert [one.name for one in make_assignors("cooperative-sticky")] == ["cooperative-sticky"]
    for wrong in ("best", [], ["range", 7]):
        with pytest.raises(InvalidOptionError, match="partition_assignment_strategy="):
            make_assignors(wrong)


def test_subscriptions_and_assignments_round_trip():
    owned = (TopicPartition("t", 1), TopicPartition("t", 3), TopicPartition("u", 0))
    whole = Subscription(("t", "u"), owned, 5, "rack", b"data")
    assert Subscription.decode(whole.encode()) == whole
    assert decode_assignment(encode_assignment(reversed(owned))) == owned
    assert decode_assignment(b"") == ()

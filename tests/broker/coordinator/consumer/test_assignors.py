"""The assignors of consumer groups: every partition once, to a subscriber, balanced, and moved no more than needed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.consumer.assignors import KAFKA_PACKAGE, Subscriber, assignor_name, ranges, uniform

TOPICS = [bytes([number]) * 16 for number in range(5)]


def load(shares):
    return sum(map(len, shares.values()))


def check_complete(subscribers, sizes, assigned):
    """Every partition that somebody is subscribed to has exactly one owner, who is subscribed to it."""
    assert assigned.keys() == subscribers.keys()
    owners = {}
    for member_id, shares in assigned.items():
        for topic, partitions in shares.items():
            assert partitions, "a topic without partitions"
            assert topic in subscribers[member_id].topics
            for partition in partitions:
                assert owners.setdefault((topic, partition), member_id) == member_id
    wanted = {topic for subscriber in subscribers.values() for topic in subscriber.topics}
    assert owners.keys() == {(topic, partition) for topic in wanted for partition in range(sizes[topic])}
    return owners


def moved(before, after):
    """Partitions that a member had and another one has now."""
    return sum(
        len(partitions - after.get(member_id, {}).get(topic, frozenset()))
        for member_id, shares in before.items()
        for topic, partitions in shares.items()
    )


sizes_of_topics = st.lists(st.integers(0, 12), min_size=5, max_size=5).map(
    lambda sizes: dict(zip(TOPICS, sizes, strict=True))
)
subsets = st.frozensets(st.sampled_from(TOPICS))
members = st.dictionaries(st.integers(0, 30).map(lambda number: f"m{number:02}"), subsets, min_size=1, max_size=8)


def junk(draw_seed, subscribers, sizes):
    """What members had: anything, also what is gone, not theirs any longer, or twice."""
    rng = random.Random(draw_seed)
    return {
        member_id: {
            topic: frozenset(rng.sample(range(sizes[topic] + 2), rng.randrange(sizes[topic] + 2)))
            for topic in rng.sample(TOPICS, rng.randrange(len(TOPICS)))
        }
        for member_id in subscribers
    }


def make(topics_of, current=None):
    return {
        member_id: Subscriber(
            None, topics, {topic: some for topic, some in (current or {}).get(member_id, {}).items() if some}
        )
        for member_id, topics in topics_of.items()
    }


@settings(max_examples=40)
@given(members, sizes_of_topics, st.integers(0, 1 << 30), st.sampled_from([uniform, ranges]))
def test_every_partition_goes_to_one_subscriber_for_any_previous_assignment(topics_of, sizes, seed, assignor):
    subscribers = make(topics_of, junk(seed, topics_of, sizes))
    check_complete(subscribers, sizes, assignor(subscribers, sizes))


@settings(max_examples=40)
@given(members, sizes_of_topics, st.integers(0, 1 << 30))
def test_uniform_is_as_balanced_as_possible(topics_of, sizes, seed):
    subscribers = make(topics_of, junk(seed, topics_of, sizes))
    assigned = uniform(subscribers, sizes)
    loads = {member_id: load(shares) for member_id, shares in assigned.items()}
    for start, shares in assigned.items():
        reached, waiting = {start}, [start]
        while waiting:
            for topic in assigned[waiting.pop()]:
                for other, subscriber in subscribers.items():
                    if topic in subscriber.topics and other not in reached:
                        reached.add(other)
                        waiting.append(other)
        assert min(loads[one] for one in reached) >= load(shares) - 1


@settings(max_examples=40)
@given(members, sizes_of_topics)
def test_uniform_keeps_a_balanced_assignment(topics_of, sizes):
    first = uniform(make(topics_of), sizes)
    assert uniform(make(topics_of, first), sizes) == first


@settings(max_examples=40)
@given(st.integers(1, 8), st.integers(0, 40), st.booleans())
def test_uniform_moves_only_the_share_of_a_new_or_lost_member(count, partitions, joins):
    sizes = {TOPICS[0]: partitions}
    topics_of = {f"m{number}": frozenset(TOPICS[:1]) for number in range(count)}
    before = uniform(make(topics_of), sizes)
    if joins:
        after = uniform(make(topics_of | {"new": frozenset(TOPICS[:1])}, before), sizes)
        assert moved(before, after) == load(after["new"]) == partitions // (count + 1)
    elif count > 1:
        gone = before.pop("m0")
        del topics_of["m0"]
        assert moved(before, uniform(make(topics_of, before), sizes)) == 0
        assert gone is not None


def test_a_chain_of_members_is_balanced_from_end_to_end():
    """A may only give to B, B only to C: Kafka's assignor leaves 9, 10 and 11 here."""
    one, two = TOPICS[:2]
    sizes = {one: 15, two: 15}
    topics_of = {"a": frozenset({one}), "b": frozenset({one, two}), "c": frozenset({two})}
    current = {
        "a": {one: frozenset(range(9))},
        "b": {one: frozenset(range(9, 15)), two: frozenset(range(4))},
        "c": {two: frozenset(range(4, 15))},
    }
    assigned = uniform(make(topics_of, current), sizes)
    assert [load(shares) for shares in assigned.values()] == [10, 10, 10]
    assert moved(current, assigned) == 2


def test_range_assigns_topics_alike_and_orders_static_members_first():
    one, two = TOPICS[:2]
    subscribers = {
        "z": Subscriber(None, frozenset({one, two}), {}),
        "a": Subscriber("i2", frozenset({one, two}), {}),
        "b": Subscriber("i1", frozenset({one, two}), {}),
    }
    assigned = ranges(subscribers, {one: 7, two: 7})
    assert {member_id: sorted(shares[one]) for member_id, shares in assigned.items()} == {
        "b": [0, 1, 2],
        "a": [3, 4],
        "z": [5, 6],
    }
    assert all(shares[one] == shares[two] for shares in assigned.values())


def test_range_with_different_subscriptions():
    one, two = TOPICS[:2]
    topics_of = {"a": frozenset({one}), "b": frozenset({one, two}), "c": frozenset({two})}
    assert ranges(make(topics_of), {one: 3, two: 2}) == {
        "a": {one: frozenset({0, 1})},
        "b": {one: frozenset({2}), two: frozenset({0})},
        "c": {two: frozenset({1})},
    }


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("uniform", "uniform"),
        ("range", "range"),
        (f"{KAFKA_PACKAGE}UniformAssignor", "uniform"),
        (f"{KAFKA_PACKAGE}RangeAssignor", "range"),
        ("simple", None),
        ("", None),
    ],
)
def test_names_of_assignors(setting, name):
    assert assignor_name(setting) == name

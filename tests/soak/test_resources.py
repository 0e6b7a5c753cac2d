"""The comparison of what brokers have at the beginning and at the end."""

from __future__ import annotations

from support.soak.resources import DESCRIPTORS, MEMORY_BYTES, MEMORY_FACTOR, TASKS, Resources, growth

BEFORE = Resources(100_000_000, 50, 40)
MOST = Resources(int(BEFORE.memory * MEMORY_FACTOR) + MEMORY_BYTES, 50 + DESCRIPTORS, 40 + TASKS)


def grown(**more: int) -> list[str]:
    after = MOST._replace(**{name: getattr(MOST, name) + added for name, added in more.items()})
    return growth({1: BEFORE, 2: BEFORE}, {1: BEFORE, 2: after})


def test_what_grows_within_the_tolerance_is_the_same() -> None:
    assert grown() == []


def test_each_broker_is_compared_with_the_most_that_one_had() -> None:
    restarted = Resources(1, 1, 1)
    assert growth({1: BEFORE, 2: restarted}, {1: BEFORE, 2: MOST}) == []


def test_what_grows_beyond_it_is_named() -> None:
    now = MOST._replace(memory=MOST.memory + 1)
    assert grown(memory=1) == [f"broker 2: memory grew from 100 MB, 50 descriptors, 40 tasks to {now}"]
    assert [one.partition(" grew")[0] for one in grown(memory=1, descriptors=1, tasks=1)] == [
        "broker 2: memory",
        "broker 2: descriptors",
        "broker 2: tasks",
    ]


def test_a_broker_that_is_gone_is_named() -> None:
    assert growth({1: BEFORE, 2: BEFORE}, {1: BEFORE}) == ["broker 2: it does not run"]

"""Which filters of a request select which ACLs, and that other tasks run meanwhile."""

import asyncio

import pytest

from broker.authorization.acl_selection import STEP, AclSelection
from security.acls.binding import AccessRule, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

TOPIC = ResourcePattern(ResourceType.TOPIC, "orders")
GROUP = ResourcePattern(ResourceType.GROUP, "orders")
RULE = AccessRule("User:alice", "*", Operation.READ, Permission.ALLOW)
EXACT = AclFilter(ResourceType.TOPIC, "orders", PatternType.LITERAL)


async def selected(filters, pattern):
    return [number for number, _ in await AclSelection(filters).of(pattern)]


async def test_filters_are_in_the_order_of_the_request_and_count_once():
    filters = [AclFilter(), EXACT, AclFilter(name="other"), AclFilter(ResourceType.TOPIC), EXACT, AclFilter()]
    assert await selected(filters, TOPIC) == [0, 1, 3]
    assert await selected(filters, GROUP) == [0]
    assert [AclSelection(filters).first_of(number) for number in range(6)] == [0, 1, 2, 3, 1, 0]


async def test_filters_that_name_a_pattern_are_not_compared_with_others():
    only = AclSelection([EXACT])
    assert only.candidates([GROUP]) == [TOPIC]
    assert AclSelection([EXACT, AclFilter()]).candidates([GROUP]) == [GROUP, TOPIC]


async def test_a_rule_belongs_to_the_first_filter_that_matches_it():
    filters = [AclFilter(principal="User:bob"), AclFilter(operation=Operation.READ), AclFilter()]
    selection = AclSelection(filters)
    write = RULE._replace(operation=Operation.WRITE)
    found = await selection.matches(await selection.of(TOPIC), [RULE, write])
    assert found == {RULE: 1, write: 2}
    nobody = AclSelection(filters[:1])
    assert await nobody.matches(await nobody.of(TOPIC), [RULE]) == {RULE: None}


@pytest.mark.parametrize("what", ["patterns", "rules"])
async def test_other_tasks_run_between_the_comparisons(what):
    """Count the turns of another task, not time."""
    size = 5 * STEP
    selection = AclSelection([AclFilter(principal=f"User:{number}") for number in range(size)])
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    if what == "patterns":
        patterns = [TOPIC._replace(name=f"topic-{number}") for number in range(10)]
        found = await asyncio.gather(*map(selection.of, patterns))
        assert [len(one) for one in found] == [size] * 10
    else:
        everything = await selection.of(TOPIC)
        turns = 0
        rules = [RULE._replace(host=f"10.0.0.{number}") for number in range(10)]
        assert set((await selection.matches(everything, rules)).values()) == {None}
    counting.cancel()
    assert turns >= 10 * size / STEP

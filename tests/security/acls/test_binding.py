"""Filters of ACLs."""

import pytest

from security.acls.binding import AccessRule, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
PATTERNS = [ResourcePattern(TOPIC, *one) for one in (("t", LITERAL), ("t", PREFIXED), ("*", LITERAL), ("te", PREFIXED))]
RULE = AccessRule("User:a", "*", Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("name", "pattern_type", "selected"),
    [
        (None, PatternType.ANY, {0, 1, 2, 3}),
        ("t", PatternType.ANY, {0, 1}),
        ("t", PatternType.LITERAL, {0}),
        ("t", PatternType.PREFIXED, {1}),
        ("t", PatternType.MATCH, {0, 1, 2}),
        ("tea", PatternType.MATCH, {1, 2, 3}),
        (None, PatternType.MATCH, {0, 1, 2, 3}),
        (None, PatternType.PREFIXED, {1, 3}),
        ("t", 9, set()),
        (None, 9, set()),
    ],
)
def test_patterns_that_a_filter_selects(name, pattern_type, selected):
    acl_filter = AclFilter(TOPIC, name, pattern_type)
    assert {number for number, pattern in enumerate(PATTERNS) if acl_filter.selects(pattern)} == selected


def test_rules_that_a_filter_matches():
    assert AclFilter().matches(RULE)
    assert AclFilter(principal="User:a", host="*", operation=3, permission=3).matches(RULE)
    for other in ({"principal": "User:b"}, {"host": "h"}, {"operation": 2}, {"permission": 2}, {"operation": 99}):
        assert not AclFilter(**other).matches(RULE)


def test_a_filter_for_one_pattern_knows_it():
    assert AclFilter(TOPIC, "t", LITERAL).only_pattern == PATTERNS[0]
    for several in (AclFilter(TOPIC, "t"), AclFilter(1, "t", LITERAL), AclFilter(TOPIC), AclFilter(99, "t", LITERAL)):
        assert several.only_pattern is None

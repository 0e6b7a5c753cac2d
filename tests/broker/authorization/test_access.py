"""Decisions of the authorizer are cached, within limits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.authorization.access import MAX_CACHED_NAME, Access
from security.acls.types import Operation, ResourceType
from security.principal import Principal


class Counting:
    """An authorizer that allows everything and counts the questions."""

    def __init__(self):
        self.asked = 0
        self.changed = lambda: None

    def allows(self, *_):
        self.asked += 1
        return True


@pytest.mark.parametrize(("length", "asked"), [(MAX_CACHED_NAME, 1), (MAX_CACHED_NAME + 1, 3)])
def test_decisions_about_long_names_are_not_kept(length, asked):
    authorizer = Counting()
    access = Access(authorizer)
    context = SimpleNamespace(connection=SimpleNamespace(principal=Principal("User", "eve"), host="127.0.0.1"))
    for _ in range(3):
        assert access.sees(context, Operation.READ, ResourceType.TOPIC, "x" * length)
    assert authorizer.asked == asked
    authorizer.changed()
    assert access.sees(context, Operation.READ, ResourceType.TOPIC, "x" * length)
    assert authorizer.asked == asked + 1

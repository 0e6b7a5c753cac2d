"""Which of the filters of a DeleteAcls request select which ACLs, without blocking the event loop.

A request of any size is allowed, so filters times patterns can be any number of comparisons. They are made in steps,
and other tasks run between two steps. Filters that name one pattern are found without a comparison, and a filter that
occurs several times counts once: as in Kafka, an ACL is in the answer of the first filter that selects it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from security.acls.binding import AccessRule, AclFilter, ResourcePattern

STEP: Final = 1000
"""Comparisons after which other tasks run: less than a millisecond."""


class NumberedFilter(NamedTuple):
    """A filter, and its number in the request."""

    number: int
    filter: AclFilter


class AclSelection:
    """The filters of one request."""

    def __init__(self, filters: Sequence[AclFilter]) -> None:
        self._filters = filters
        self._first: dict[AclFilter, int] = {}
        self._exact: dict[ResourcePattern, list[NumberedFilter]] = {}
        self._wide: list[NumberedFilter] = []
        for number, one in enumerate(filters):
            if self._first.setdefault(one, number) != number:
                continue
            only = one.only_pattern
            numbered = NumberedFilter(number, one)
            if only is None:
                self._wide.append(numbered)
            elif one.selects(only):
                self._exact.setdefault(only, []).append(numbered)
        self._turn = asyncio.Lock()  # patterns are worked on concurrently, and share the steps
        self._compared = 0

    def first_of(self, number: int) -> int:
        """Return the number of the first filter that is equal to this one."""
        return self._first[self._filters[number]]

    def candidates(self, known: Iterable[ResourcePattern]) -> list[ResourcePattern]:
        """Return the patterns that filters may select. known: those that have rules."""
        return list(dict.fromkeys([*(known if self._wide else ()), *self._exact]))

    async def of(self, pattern: ResourcePattern) -> list[NumberedFilter]:
        """Return the filters that select a pattern, in the order of the request."""
        selected = list(self._exact.get(pattern, ()))
        async with self._turn:
            for some in self._steps(self._wide):
                selected += [one for one in some if one.filter.selects(pattern)]
                await self._pause()
        return sorted(selected, key=lambda one: one.number)

    async def matches(
        self, selected: Sequence[NumberedFilter], rules: Iterable[AccessRule]
    ) -> dict[AccessRule, int | None]:
        """Return the number of the first filter that matches each rule; None if none does."""
        found: dict[AccessRule, int | None] = {}
        async with self._turn:
            for rule in rules:
                found[rule] = None
                for some in self._steps(selected):
                    found[rule] = first_match(some, rule)
                    await self._pause()
                    if found[rule] is not None:
                        break
        return found

    def _steps(self, filters: Sequence[NumberedFilter]) -> Iterator[Sequence[NumberedFilter]]:
        for start in range(0, len(filters), STEP):
            some = filters[start : start + STEP]
            self._compared += len(some)
            yield some

    async def _pause(self) -> None:
        """Let other tasks run if STEP comparisons have been made since the last pause."""
        if self._compared >= STEP:
            self._compared = 0
            await asyncio.sleep(0)


def first_match(filters: Iterable[NumberedFilter], rule: AccessRule) -> int | None:
    """Return the number of the first filter that matches a rule."""
    return next((number for number, one in filters if one.matches(rule)), None)

"""A set of patterns that answers which names it covers in a time that does not grow with the set."""

from __future__ import annotations

from collections import Counter

from security.acls.binding import ANY_NAME, ResourcePattern
from security.acls.types import PatternType


class NameSet:
    """The names and prefixes of patterns of one resource type.

    `in` costs one look-up, and one more for each length that a prefix of the set has.
    """

    __slots__ = ("_lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: set[str] = set()
        self.prefixes: set[str] = set()
        self._lengths: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self.literals or self.prefixes)

    def __contains__(self, name: str) -> bool:
        """Whether one of the patterns covers a resource of this name."""
        return name in self.literals or ANY_NAME in self.literals or self.has_prefix_of(name)

    def has_prefix_of(self, name: str) -> bool:
        """Whether one of the prefixes is a prefix of this name."""
        return any(name[:length] in self.prefixes for length in self._lengths if length <= len(name))

    def add(self, pattern: ResourcePattern) -> None:
        """Add a pattern."""
        if pattern.pattern_type is PatternType.LITERAL:
            self.literals.add(pattern.name)
        elif pattern.name not in self.prefixes:
            self.prefixes.add(pattern.name)
            self._lengths[len(pattern.name)] += 1

    def discard(self, pattern: ResourcePattern) -> None:
        """Remove a pattern if it is in the set."""
        if pattern.pattern_type is PatternType.LITERAL:
            self.literals.discard(pattern.name)
        elif pattern.name in self.prefixes:
            self.prefixes.remove(pattern.name)
            self._lengths[len(pattern.name)] -= 1
            if not self._lengths[len(pattern.name)]:
                del self._lengths[len(pattern.name)]

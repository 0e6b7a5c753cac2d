"""The syntax tree of a regular expression."""

from __future__ import annotations

from typing import NamedTuple

from broker.coordinator.consumer.regex.char_set import CharSet


class Chars(NamedTuple):
    """One character of a set."""

    chars: CharSet


class Assertion(NamedTuple):
    """A position. kind: "A" start of the text, "z" its end, "^" and "$" of a line, "b" of a word, "B" not of a word."""

    kind: str


class Sequence(NamedTuple):
    """Nodes one after the other."""

    nodes: tuple[Node, ...]


class Alternatives(NamedTuple):
    """One of several nodes."""

    nodes: tuple[Node, ...]


class Repeat(NamedTuple):
    """A node several times. high: None for no limit."""

    node: Node
    low: int
    high: int | None


Node = Chars | Assertion | Sequence | Alternatives | Repeat

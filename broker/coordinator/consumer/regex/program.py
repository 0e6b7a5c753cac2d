"""A regular expression as an automaton: a list of instructions, each with the numbers of the next ones.

Thompson's construction. A repetition `{n}` copies its node n times; the number of instructions is limited.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.coordinator.consumer.regex.char_set import CharSet
from broker.coordinator.consumer.regex.errors import InvalidRegexError
from broker.coordinator.consumer.regex.syntax import Alternatives, Assertion, Chars, Node, Repeat, Sequence

MAX_INSTRUCTIONS: Final = 10_000
MATCH: Final = 0
"""The number of the instruction at which a text matches."""


class Instruction(NamedTuple):
    """What may follow: after a character of `chars`, or at a position where `assertion` holds, or always."""

    following: tuple[int, ...]
    chars: CharSet | None = None
    assertion: str = ""


class Program(NamedTuple):
    """The instructions, and the number of the first."""

    instructions: list[Instruction]
    start: int


def compile_program(node: Node) -> Program:
    """Return the automaton of a syntax tree. Raises InvalidRegexError if it is too large."""
    compiler = _Compiler()
    return Program(compiler.instructions, compiler.add(node, MATCH))


class _Compiler:
    def __init__(self) -> None:
        self.instructions = [Instruction(())]  # MATCH

    def add(self, node: Node, after: int) -> int:
        """Add the instructions of a node that is followed by `after`, and return the number of the first."""
        match node:
            case Chars(chars):
                return self._append(Instruction((after,), chars))
            case Assertion(kind):
                return self._append(Instruction((after,), assertion=kind))
            case Sequence(nodes):
                for one in reversed(nodes):
                    after = self.add(one, after)
                return after
            case Alternatives(nodes):
                return self._append(Instruction(tuple(self.add(one, after) for one in nodes)))
            case Repeat(repeated, low, high):
                return self._add_repeat(repeated, low, high, after)

    def _add_repeat(self, node: Node, low: int, high: int | None, after: int) -> int:
        if high is None:
            loop = self._append(Instruction((after,)))  # completed below, when its body is known
            self.instructions[loop] = Instruction((self.add(node, loop), after))
            after = loop
        else:
            end = after
            for _ in range(high - low):
                after = self._append(Instruction((self.add(node, after), end)))
        for _ in range(low):
            first = self.add(node, after)
            if first == after:  # the node is empty
                break
            after = first
        return after

    def _append(self, instruction: Instruction) -> int:
        if len(self.instructions) >= MAX_INSTRUCTIONS:
            raise InvalidRegexError(f"pattern too large: more than {MAX_INSTRUCTIONS} instructions")
        self.instructions.append(instruction)
        return len(self.instructions) - 1

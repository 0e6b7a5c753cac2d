"""Decides whether a whole text matches a regular expression, in time linear in the text.

The automaton is in several instructions at the same time, and never goes back in the text. A set of instructions is a
state; a state remembers where each character leads, so that most characters cost one look into a dict. What is
remembered is limited. So is the work of one call of `matching`, because the automaton of a malicious pattern has no two
equal states, and each costs a look at all instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.coordinator.consumer.regex.errors import InvalidRegexError
from broker.coordinator.consumer.regex.parser import parse
from broker.coordinator.consumer.regex.program import MATCH, compile_program

MAX_REMEMBERED: Final = 50_000
"""Instructions in all sets that a pattern remembers: about 2 MB."""
MAX_VISITS: Final = 2_000_000
"""Instructions that are looked at in one call: about half a second."""

_WORD: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


class _State:
    """Instructions, before assertions are tested, and the character before them ("" at the start of the text).

    following: the state after each character. reached: for each kind of the next character, the instructions that are
    reached without one, and that take one, or MATCH.
    """

    __slots__ = ("before", "following", "instructions", "reached")

    def __init__(self, instructions: frozenset[int], before: str) -> None:
        self.instructions = instructions
        self.before = before
        self.following: dict[str, _State] = {}
        self.reached: dict[str, frozenset[int]] = {}


class Matcher:
    """A regular expression that is ready to be used."""

    def __init__(self, pattern: str) -> None:
        """Raises InvalidRegexError."""
        self._instructions, start = compile_program(parse(pattern))
        self._has_assertions = any(instruction.assertion for instruction in self._instructions)
        self._start = frozenset((start,))
        self._takers: dict[str, frozenset[int]] = {"": frozenset((MATCH,))}
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._remembered = 0
        self._visits = 0

    def matches(self, text: str) -> bool:
        """Whether a text matches. Raises InvalidRegexError if that takes too much time."""
        return bool(self.matching((text,)))

    def matching(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the texts that match. Raises InvalidRegexError if that takes too much time."""
        self._visits = 0
        return frozenset(text for text in texts if self._matches(text))

    def _matches(self, text: str) -> bool:
        state = self._state(self._start, "")
        for char in (*text, ""):
            state = state.following.get(char) or self._step(state, char)
            if not state.instructions:
                return False
        return True

    def _step(self, state: _State, char: str) -> _State:
        """Return the state after a character; "" is the end of the text, after which only MATCH may be left."""
        kind = _kind(char) if self._has_assertions else ""
        reached = state.reached.get(kind)
        if reached is None:
            reached = state.reached[kind] = self._reached(state, kind)
        following: set[int] = set()
        for number in reached & self._taking(char):
            following.update(self._instructions[number].following or (MATCH,))
        self._visits += len(following) + 1
        found = state.following[char] = self._state(frozenset(following), kind)
        return found

    def _reached(self, state: _State, after: str) -> frozenset[int]:
        """Return the instructions that take a character, or MATCH, which are reached without one."""
        reached: set[int] = set()
        visited: set[int] = set()
        waiting = list(state.instructions)
        while waiting:
            number = waiting.pop()
            if number in visited:
                continue
            visited.add(number)
            instruction = self._instructions[number]
            if instruction.chars is not None or number == MATCH:
                reached.add(number)
            elif not instruction.assertion or _holds(instruction.assertion, state.before, after):
                waiting += instruction.following
        self._visits += len(visited)
        if self._visits > MAX_VISITS:
            raise InvalidRegexError("it takes too much time to match the names of all topics: write a simpler one")
        self._remembered += len(reached)
        return frozenset(reached)

    def _taking(self, char: str) -> frozenset[int]:
        """Return the instructions that take a character; for the end of the text, MATCH."""
        takers = self._takers.get(char)
        if takers is None:
            sets = {one.chars for one in self._instructions if one.chars is not None}
            containing = {chars for chars in sets if chars.contains(char)}
            numbers = (number for number, one in enumerate(self._instructions) if one.chars in containing)
            takers = self._takers[char] = frozenset(numbers)
            self._visits += len(self._instructions)
            self._remembered += len(takers)
        return takers

    def _state(self, instructions: frozenset[int], before: str) -> _State:
        state = self._states.get((instructions, before))
        if state is None:
            if self._remembered > MAX_REMEMBERED:
                self._states.clear()
                self._takers = {"": frozenset((MATCH,))}
                self._remembered = 0
            self._remembered += len(instructions) + 1
            state = self._states[instructions, before] = _State(instructions, before)
        return state


def _kind(char: str) -> str:
    """Return a character of which all assertions say the same as of this one."""
    return char if char in ("", "\n") else "a" if char in _WORD else "."


def _holds(assertion: str, before: str, after: str) -> bool:
    """Whether an assertion holds between two characters; "" for the start or the end of the text."""
    match assertion:
        case "A":
            return not before
        case "z":
            return not after
        case "^":
            return before in ("", "\n")
        case "$":
            return after in ("", "\n")
    return ((before in _WORD) != (after in _WORD)) == (assertion == "b")

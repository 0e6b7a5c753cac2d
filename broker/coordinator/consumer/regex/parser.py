"""Parses the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), and refuses what RE2 refuses.

What a group captures, and whether an operator is greedy, does not change whether a whole text matches: both are parsed
and forgotten.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from broker.coordinator.consumer.regex.char_set import CharSet, perl_set, posix_set, unicode_set
from broker.coordinator.consumer.regex.errors import InvalidRegexError
from broker.coordinator.consumer.regex.syntax import Alternatives, Assertion, Chars, Node, Repeat, Sequence

MAX_DEPTH: Final = 100
"""Groups in groups. RE2 accepts 1,000, but this parser is recursive."""
MAX_REPEATS: Final = 1000
"""The product of nested `{n}`."""

_COUNT: Final = re.compile(r"\{(0|[1-9]\d{0,8})(?:(,)(0|[1-9]\d{0,8})?)?\}")
_NAME: Final = re.compile(r"\w+>")
_HEX: Final = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})")
_OCTAL: Final = re.compile(r"[0-7]{2,3}|0")
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANY: Final = CharSet("\0\U0010ffff")
_NOT_NEWLINE: Final = CharSet("\n\n", negated=True)


class _Flags(NamedTuple):
    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False


class _Sized(NamedTuple):
    """A node, and the largest product of the nested repetitions in it."""

    node: Node
    repeats: int = 1


def parse(pattern: str) -> Node:
    """Return the syntax tree of a pattern. Raises InvalidRegexError."""
    try:
        pattern.encode()
    except UnicodeEncodeError:
        raise InvalidRegexError("a surrogate is not a character") from None
    parser = _Parser(pattern)
    found, _ = parser.alternatives(_Flags(), 0)
    if parser.rest:
        raise InvalidRegexError(f"unexpected ): {pattern}")
    return found.node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def rest(self) -> bool:
        """Whether not all is parsed."""
        return self._at < len(self._pattern)

    def alternatives(self, flags: _Flags, depth: int) -> tuple[_Sized, _Flags]:
        """Parse up to the end, or to the parenthesis that closes a group, which is not consumed."""
        if depth > MAX_DEPTH:
            raise InvalidRegexError(f"more than {MAX_DEPTH} groups in each other")
        branches: list[Node] = []
        repeats = 1
        while True:
            items, flags = self._sequence(flags, depth)
            repeats = max([repeats, *(item.repeats for item in items)])
            branches.append(Sequence(tuple(item.node for item in items)))
            if not self._take("|"):
                break
        return _Sized(branches[0] if len(branches) == 1 else Alternatives(tuple(branches)), repeats), flags

    def _sequence(self, flags: _Flags, depth: int) -> tuple[list[_Sized], _Flags]:
        items: list[_Sized] = []
        operator = ""  # the one that ends here
        while self.rest and self._peek() not in "|)":
            start = self._at
            repeated = self._repeated()
            if repeated is not None:
                self._take("?")  # not greedy
                text = self._pattern[start : self._at]
                if operator:
                    raise InvalidRegexError(f"bad repetition operator: {operator}{text}")
                if not items:
                    raise InvalidRegexError(f"no argument for repetition operator: {text}")
                items[-1] = _repeat(items[-1], *repeated, text)
                operator = text
                continue
            before = len(items)
            if self._take(r"\Q"):
                items += self._quoted(flags)
                operator = ""  # an empty quotation separates two operators, too
            elif self._take("("):
                group, flags = self._group(flags, depth)
                items += group
            else:
                items.append(_Sized(self._atom(flags)))
            if len(items) > before:  # flags do not separate two operators
                operator = ""
        return items, flags

    def _repeated(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        found = _COUNT.match(self._pattern, self._at)
        if found is None:
            return None
        self._at = found.end()
        low = int(found[1])
        return low, low if found[2] is None else int(found[3]) if found[3] else None

    def _quoted(self, flags: _Flags) -> list[_Sized]:
        end = self._pattern.find(r"\E", self._at)
        text = self._pattern[self._at : end if end >= 0 else None]
        self._at += len(text) + (2 if end >= 0 else 0)
        return [_Sized(_literal(char, flags)) for char in text]

    def _group(self, flags: _Flags, depth: int) -> tuple[list[_Sized], _Flags]:
        """Parse what follows "(": a group, or flags for the rest of the group around them."""
        start = self._at - 1
        inner = flags
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name = _NAME.match(self._pattern, self._at)
                if name is None:
                    raise InvalidRegexError(f"invalid named capture group: {self._pattern[start:]}")
                self._at = name.end()
            else:
                inner, is_group = self._flags(flags, start)
                if not is_group:
                    return [], inner
        node, _ = self.alternatives(inner, depth + 1)
        if not self._take(")"):
            raise InvalidRegexError(f"missing ): {self._pattern}")
        return [node], flags

    def _flags(self, flags: _Flags, start: int) -> tuple[_Flags, bool]:
        """Parse flags up to ":", which begins a group, or ")"."""
        value, seen = True, True
        while self.rest:
            char = self._next()
            if char in "imsU":
                flags, seen = flags._replace(**{char: value}), True
            elif char == "-" and value:
                value, seen = False, False
            elif char in ":)" and seen:
                return flags, char == ":"
            else:
                break
        raise InvalidRegexError(f"invalid perl operator: {self._pattern[start : self._at]}")

    def _atom(self, flags: _Flags) -> Node:
        char = self._next()
        match char:
            case ".":
                return Chars(_ANY if flags.s else _NOT_NEWLINE)
            case "^":
                return Assertion("^" if flags.m else "A")
            case "$":
                return Assertion("$" if flags.m else "z")
            case "[":
                return Chars(self._brackets(flags))
            case "\\":
                return self._escape(flags)
        return _literal(char, flags)

    def _escape(self, flags: _Flags) -> Node:
        if self.rest:
            if self._peek() in "AbBz":
                return Assertion(self._next())
            if self._take("C"):  # a byte, in a text of ASCII
                return Chars(_ANY)
        named = self._named_set(flags)
        return _literal(self._escaped(), flags) if named is None else Chars(named)

    def _named_set(self, flags: _Flags) -> CharSet | None:
        r"""Parse what follows a backslash, if it is a class: `d`, `pL`, `p{Greek}`."""
        if not self.rest:
            return None
        found = perl_set(self._peek(), ignore_case=flags.i)
        if found is not None:
            self._at += 1
            return found
        if self._peek() not in "pP":
            return None
        start = self._at - 1
        negated = self._next() == "P"
        name = ""
        if self._take("{"):
            end = self._pattern.find("}", self._at)
            name = self._pattern[self._at : max(end, self._at)]
            self._at = end + 1 if end >= 0 else len(self._pattern)
        elif self.rest:
            name = self._next()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = unicode_set(name, negated=negated, ignore_case=flags.i)
        if found is None:
            raise InvalidRegexError(f"invalid character class range: {self._pattern[start : self._at]}")
        return found

    def _escaped(self) -> str:
        """Parse what follows a backslash: one character."""
        start = self._at - 1
        if not self.rest:
            raise InvalidRegexError("trailing \\")
        char = self._next()
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isascii() and not char.isalnum():
            return char
        code = 0x110000
        if char == "x" and (digits := _HEX.match(self._pattern, self._at)):
            self._at, code = digits.end(), int(digits[1] or digits[2], 16)
        elif octal := _OCTAL.match(self._pattern, self._at - 1):
            self._at, code = octal.end(), int(octal[0], 8)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise InvalidRegexError(f"invalid escape sequence: {self._pattern[start : self._at]}")
        return chr(code)

    def _brackets(self, flags: _Flags) -> CharSet:
        start = self._at - 1
        negated = self._take("^")
        ends, members = "", []
        first = True
        while first or not self._take("]"):
            first = False
            if not self.rest:
                raise InvalidRegexError(f"missing ]: {self._pattern[start:]}")
            member = self._named_set_in_brackets(flags)
            if member is not None:
                members.append(member)
            else:
                ends += self._range()
        return CharSet(ends, members=tuple(members), ignore_case=flags.i, negated=negated)

    def _named_set_in_brackets(self, flags: _Flags) -> CharSet | None:
        if self._pattern.startswith("[:", self._at) and (end := self._pattern.find(":]", self._at + 2)) >= 0:
            text = self._pattern[self._at : end + 2]
            name = text[2:-2].removeprefix("^")
            found = posix_set(name, negated=text.startswith("[:^"), ignore_case=flags.i)
            if found is None:
                raise InvalidRegexError(f"invalid character class range: {text}")
            self._at = end + 2
            return found
        if not self._take("\\"):
            return None
        found = self._named_set(flags)
        if found is None:
            self._at -= 1
        return found

    def _range(self) -> str:
        start = self._at
        low = high = self._char_in_brackets()
        following = self._pattern[self._at + 1 : self._at + 2]
        if following not in ("", "]") and self._take("-"):
            high = self._char_in_brackets()
        if high < low:
            raise InvalidRegexError(f"invalid character class range: {self._pattern[start : self._at]}")
        return low + high

    def _char_in_brackets(self) -> str:
        return self._escaped() if self._take("\\") else self._next()

    def _peek(self) -> str:
        return self._pattern[self._at]

    def _next(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1]

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        if found:
            self._at += len(text)
        return found


def _literal(char: str, flags: _Flags) -> Chars:
    return Chars(CharSet(char + char, ignore_case=flags.i))


def _repeat(item: _Sized, low: int, high: int | None, text: str) -> _Sized:
    most = max(low, high or 0, 1)
    if most * item.repeats > MAX_REPEATS or (high is not None and high < low):
        raise InvalidRegexError(f"invalid repetition size: {text}")
    return _Sized(Repeat(item.node, low, high), most * item.repeats)

"""`ssl.principal.mapping.rules`: user names from the subjects of client certificates (KIP-371).

    RULE:^CN=(.*?),.*$/$1/L,DEFAULT

The rules are tried in order. `RULE:pattern/replacement/` applies if the pattern matches the whole subject; L or U at
its end makes the name lower or upper case. DEFAULT is the subject as it is. If no rule applies, the
connection is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from security.tls.errors import TlsConfigError

SETTING: Final = "ssl.principal.mapping.rules"
_DEFAULT: Final = "DEFAULT"
_RULE: Final = "RULE:"
_PART = re.compile(r"((?:\\.|[^\\/])*)/", re.DOTALL)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoMatchingRuleError(Exception):
    """No rule applies to a subject."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str  # "", "L" or "U"

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(self._expanded, subject)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _expanded(self, found: re.Match[str]) -> str:
        """Fill in the groups. As in Kafka, a reference to a group beyond the last one is kept as text."""

        def one(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            number = int(reference[2])
            if number > self.pattern.groups == 0:
                raise NoMatchingRuleError("the replacement names a group, and the pattern has none")
            return reference[0] if number > self.pattern.groups else found[number] or ""

        return _REFERENCE.sub(one, self.replacement)


class PrincipalMapping:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, rules: str) -> None:
        """Parse the value of the setting. Raises TlsConfigError."""
        self._rules = _parse(rules.strip())

    def name_of(self, subject: str) -> str:
        """Return the user name for a subject. Raises NoMatchingRuleError."""
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoMatchingRuleError(f"no rule of {SETTING} applies to {subject}")


def _parse(text: str) -> list[_Rule | None]:
    """Return the rules in order; None is DEFAULT."""
    rules: list[_Rule | None] = []
    at = 0
    while at < len(text):
        begin = at
        if text.startswith(_DEFAULT, at):
            rules.append(None)
            at += len(_DEFAULT)
        elif text.startswith(_RULE, at):
            rule, at = _parse_rule(text, at)
            rules.append(rule)
        else:
            raise _wrong(text[begin:])
        rest = text[at:].lstrip()
        if rest and not rest.startswith(","):
            raise _wrong(text[begin:])
        at = len(text) - len(rest.removeprefix(",").lstrip())
    return rules


def _parse_rule(text: str, begin: int) -> tuple[_Rule, int]:
    pattern = _PART.match(text, begin + len(_RULE))
    replacement = None if pattern is None else _PART.match(text, pattern.end())
    if pattern is None or replacement is None:
        raise _wrong(text[begin:])
    end = replacement.end()
    case = text[end : end + 1]
    case = case if case in ("L", "U") else ""
    try:
        compiled = re.compile(pattern[1], re.ASCII)
    except re.error as error:
        raise TlsConfigError(SETTING, f"the pattern {pattern[1]!r} is invalid: {error}") from None
    return _Rule(compiled, replacement[1], case), end + len(case)


def _wrong(text: str) -> TlsConfigError:
    return TlsConfigError(SETTING, f"{text!r} must be DEFAULT, or RULE:pattern/replacement/ with L or U after it")

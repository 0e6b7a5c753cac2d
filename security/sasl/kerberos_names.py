r"""`sasl.kerberos.principal.to.local.rules`: user names from the principals of Kerberos.

    RULE:[1:$1](App\..*)s/App\.(.*)/$1/g/L,RULE:[2:$1@$0](.*@EXAMPLE\.ORG)s/@.*//,DEFAULT

A principal is `primary@REALM` or `primary/instance@REALM`. The rules are tried in order:

- DEFAULT applies to principals of the default realm; the name is the primary.
- `RULE:[n:format]` applies to principals with n components before the realm. In the format, $0 is the realm, $1 the
  primary, and $2 the instance. With `(regexp)`, the regular expression must match the whole formatted text.
  `s/pattern/replacement/` replaces the first match in it, and with `g` every match; $1 in the replacement is a group.
  L or U at the end, also as `/L` or `/U`, makes the name lower or upper case.

If no rule applies, the client is refused. It is also refused if the name of the first rule that applies contains / or
@, and, unlike in Kafka, if that name is empty. A format or a replacement that refers to what does not exist, with which
Kafka refuses every client, is an error at the start here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

DEFAULT_RULE: Final = "DEFAULT"
_PRINCIPAL: Final = re.compile(r"(?P<primary>[^/@]*)(?:/(?P<instance>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"RULE:\[(?P<count>[0-9]+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_REFERENCE: Final = re.compile(r"\\(.?)|\$([0-9]*)", re.DOTALL)
_SHAPE: Final = "RULE:[n:format](regexp)s/pattern/replacement/g/L"


class KerberosRuleError(ValueError):
    """A rule cannot be used. The message quotes it and names what it breaks."""


class NoMatchingRuleError(Exception):
    """No rule gives a principal a name that can be used."""


class _Principal(NamedTuple):
    components: tuple[str, ...]
    realm: str

    @classmethod
    def parse(cls, text: str) -> _Principal:
        found = _PRINCIPAL.fullmatch(text)
        if found is None:
            raise NoMatchingRuleError(f"the principal {text!r} must be primary@REALM or primary/instance@REALM")
        components = (found["primary"],) if found["instance"] is None else (found["primary"], found["instance"])
        return cls(components, found["realm"])


@dataclass(frozen=True, slots=True)
class _DefaultRule:
    realm: str

    def apply(self, principal: _Principal) -> str | None:
        return principal.components[0] if principal.realm == self.realm else None


@dataclass(frozen=True, slots=True)
class _Rule:
    count: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: Callable[[re.Match[str]], str] | None
    is_global: bool
    case: str  # "", "L" or "U"

    def apply(self, principal: _Principal) -> str | None:
        if len(principal.components) != self.count:
            return None
        values = (principal.realm, *principal.components)
        name = _PARAMETER.sub(lambda found: values[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.pattern is not None and self.replacement is not None:
            name = self.pattern.sub(self.replacement, name, count=0 if self.is_global else 1)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class LocalNames:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """default_realm: empty if there is none; DEFAULT then applies to no principal. Raises KerberosRuleError."""
        if not rules:
            raise KerberosRuleError(f"there must be a rule, for example {DEFAULT_RULE}: no client could log in")
        # Without a default realm, a principal with an empty realm must not match.
        default = _DefaultRule(default_realm or "/")
        self._rules = [default if rule == DEFAULT_RULE else _parse(rule) for rule in rules]

    def name_of(self, principal: str) -> str:
        """Return the user name for a principal with its realm. Raises NoMatchingRuleError."""
        parsed = _Principal.parse(principal)
        for rule in self._rules:
            name = rule.apply(parsed)
            if name is None:
                continue
            if not name or "/" in name or "@" in name:
                raise NoMatchingRuleError(f"a rule makes {name!r} of {principal!r}: a name must have no / and no @")
            return name
        raise NoMatchingRuleError(f"no rule of sasl.kerberos.principal.to.local.rules applies to {principal!r}")


def _parse(rule: str) -> _Rule:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise KerberosRuleError(f"{rule!r} must be {DEFAULT_RULE}, or {_SHAPE}")
    count = int(found["count"])
    for parameter in _PARAMETER.finditer(found["format"]):
        if not parameter[1] or int(parameter[1]) > count:
            raise KerberosRuleError(
                f"{rule!r}: {parameter[0]} in the format must be from $0 (the realm) to ${count}, the last component"
            )
    pattern = _compiled(rule, found["pattern"])
    return _Rule(
        count,
        found["format"],
        _compiled(rule, found["match"]),
        pattern,
        None if pattern is None else _replacement(rule, found["replacement"], pattern.groups),
        found["all"] is not None,
        found["case"] or "",
    )


def _compiled(rule: str, pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise KerberosRuleError(f"{rule!r}: the regular expression {pattern!r} is invalid: {error}") from None


def _replacement(rule: str, text: str, groups: int) -> Callable[[re.Match[str]], str]:
    r"""Return the replacement of a match: $n is a group, and a character after \ is itself, as in Java."""
    parts: list[str | int] = []
    at = 0
    for found in _REFERENCE.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        if found[1]:
            parts.append(found[1])
        elif found[2]:
            number, rest = _group(found[2], groups)
            if number > groups:
                raise KerberosRuleError(
                    f"{rule!r}: the replacement refers to ${number}; the pattern has {groups} groups"
                )
            parts += [number, rest]
        else:
            raise KerberosRuleError(f"{rule!r}: {found[0]!r} in the replacement needs a number or a character after it")
    parts.append(text[at:])
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


def _group(digits: str, groups: int) -> tuple[int, str]:
    """Return the number of a group, and the digits after it: as many digits count as give a group that exists."""
    taken = 1
    while taken < len(digits) and int(digits[: taken + 1]) <= groups:
        taken += 1
    return int(digits[:taken]), digits[taken:]

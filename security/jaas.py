"""JAAS lines as Kafka's settings hold them: `module.Class flag option="value" ...;`.

The flag is required, requisite, sufficient or optional, in upper or lower case. SASL has one module a line, so the flag
decides nothing. A value is a word, or a text in single or double quotes with the escapes of Java. `//` and `/* */` are
comments. A line contains passwords: no error and no `repr` shows any value of it.

A JAAS file, which Java finds by `java.security.auth.login.config`, has such lines in sections: `Name { line line };`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
ZOOKEEPER_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"

LOGIN_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
"""The login module of each mechanism."""

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_SKIPPED: Final = r"(?P<skipped>\s+|//[^\n]*|/\*.*?\*/)"
_QUOTED: Final = r"\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>(?:[^'\\\n]|\\.)*)'"
_TOKEN: Final = rf"{_SKIPPED}|(?P<mark>[=;])|{_QUOTED}|(?P<word>[^\s=;\"'/]+)"
_FILE_TOKEN: Final = rf"{_SKIPPED}|(?P<mark>[=;{{}}])|{_QUOTED}|(?P<word>[^\s=;{{}}\"'/]+)"
_ESCAPE: Final = r"\\([0-3]?[0-7]{1,2}|.)"
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """A JAAS line cannot be used. The message names the rule and shows no value."""


class JaasEntry(NamedTuple):
    """The one login module of a line. `options` may contain passwords."""

    login_module: str
    control_flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.login_module}, {self.control_flag}, options hidden: {sorted(self.options)})"

    def check_mechanism(self, mechanism: str) -> None:
        """Raise JaasError if the login module is not that of a mechanism."""
        if self.login_module != LOGIN_MODULES[mechanism]:
            raise JaasError(f"the login module of {mechanism} must be {LOGIN_MODULES[mechanism]}")


def parse_jaas(text: str) -> JaasEntry:
    """Read the value of a `sasl.jaas.config`. Raises JaasError."""
    return _line(text, sorted(set(LOGIN_MODULES.values())))


def parse_zookeeper_jaas(text: str) -> JaasEntry:
    """Read a line for the login to ZooKeeper. Raises JaasError."""
    return _line(text, [ZOOKEEPER_MODULE, KERBEROS_MODULE])


def parse_jaas_file(text: str) -> dict[str, list[JaasEntry]]:
    """Read a JAAS file: the login modules of each section. Any module is allowed. Raises JaasError."""
    tokens = _Tokens(text, _FILE_TOKEN)
    sections: dict[str, list[JaasEntry]] = {}
    while not tokens.is_at_end:
        name = tokens.word("the name of a section")
        if name in sections:
            raise JaasError("two sections have the same name")
        tokens.require("{")
        entries = sections[name] = []
        while not tokens.at("}"):
            entries.append(_entry(tokens))
        tokens.require(";")
    return sections


def _line(text: str, modules: list[str]) -> JaasEntry:
    tokens = _Tokens(text, _TOKEN)
    entry = _entry(tokens)
    tokens.end()
    if entry.login_module not in modules:
        raise JaasError(f"the login module must be one of {', '.join(modules)}")
    return entry


def _entry(tokens: _Tokens) -> JaasEntry:
    module = tokens.word("a login module")
    flag = tokens.word("a control flag").lower()
    if flag not in _FLAGS:
        raise JaasError(f"the control flag after the login module must be one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while not tokens.at(";"):
        name = tokens.word("an option or a semicolon")
        if not tokens.at("="):
            raise JaasError(f"option {len(options) + 1} has no value: an option is name=value")
        options[name] = tokens.word("the value of an option")
    return JaasEntry(module, flag, options)


class _Tokens:
    """The words and marks of a text, in order."""

    def __init__(self, text: str, pattern: str) -> None:
        self._tokens = list(_tokens(text, pattern))
        self._next = 0

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._next == len(self._tokens)

    def require(self, mark: str) -> None:
        """Step over a mark. Raises JaasError if something else is next."""
        if self.is_at_end or self._tokens[self._next] != (True, mark):
            raise JaasError(f"{mark!r} is missing: a section is Name {{ module flag name=value; }};")
        self._next += 1

    def at(self, mark: str) -> bool:
        """Step over a mark if it is next. Raises JaasError at the end of the line."""
        if self._next == len(self._tokens):
            raise JaasError("the line must end in a semicolon")
        if self._tokens[self._next] != (True, mark):
            return False
        self._next += 1
        return True

    def word(self, what: str) -> str:
        """Step over a word or a quoted text, and return it. Raises JaasError."""
        if self._next == len(self._tokens):
            missing = "the line must end in a semicolon" if self._next else "it is empty"
            raise JaasError(missing)
        is_mark, text = self._tokens[self._next]
        if is_mark:
            raise JaasError(f"{what} is missing before {text!r}")
        self._next += 1
        return text

    def end(self) -> None:
        """Raise JaasError if the line goes on."""
        if self._next < len(self._tokens):
            raise JaasError("the line must contain one login module and end with its semicolon")


def _tokens(text: str, pattern: str) -> Iterator[tuple[bool, str]]:
    """Yield each token: whether it is a mark, and its text."""
    at = 0
    while at < len(text):
        found = re.compile(pattern, re.DOTALL).match(text, at)
        if found is None:
            raise JaasError(f"character {at + 1} begins neither a word nor a quoted text that ends in the same line")
        at = found.end()
        if found["mark"] is not None:
            yield True, found["mark"]
        elif found["word"] is not None:
            yield False, found["word"]
        elif (quoted := found["double"] if found["double"] is not None else found["single"]) is not None:
            yield False, re.sub(_ESCAPE, _unescaped, quoted, flags=re.DOTALL)


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)

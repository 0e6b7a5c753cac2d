"""JAAS lines as Kafka's settings hold them: `module.Class flag option="value" ...;`.

The flag is required, requisite, sufficient or optional, in upper or lower case. SASL has one module a line, so the flag
decides nothing. A value is a word, or a text in single or double quotes with the escapes of Java. `//` and `/* */` are
comments. A line contains passwords: no error and no `repr` shows any value of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"

LOGIN_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KERBEROS_MODULE,
}
"""The login module of each mechanism."""

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = (
    r"(?P<skipped>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<mark>[=;])"
    r"|\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>(?:[^'\\\n]|\\.)*)'"
    r"|(?P<word>[^\s=;\"'/]+)"
)
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
    tokens = _Tokens(text)
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
    tokens.end()
    known = sorted(set(LOGIN_MODULES.values()))
    if module not in known:
        raise JaasError(f"the login module must be one of {', '.join(known)}")
    return JaasEntry(module, flag, options)


class _Tokens:
    """The words and marks of one line, in order."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0

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


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each token: whether it is `=` or `;`, and its text."""
    at = 0
    while at < len(text):
        found = re.compile(_TOKEN, re.DOTALL).match(text, at)
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

r"""The syntax of a properties file (java.util.Properties).

Each line has one setting: `name=value`, `name:value` or `name value`. `#` and `!` begin a comment line. A
line that ends with an odd number of backslashes continues on the next line, whose leading white space is
dropped. `\t \n \r \f \uXXXX` are escapes; a backslash before any other character is removed. If a name
is repeated, the last value is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from protocol.surrogates import with_pairs_joined
from storage.setting import ConfigError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile("\r\n|\r|\n")


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings of a file. Raises ConfigError if it cannot be read or has an invalid escape.

    The text is UTF-8, or Latin-1 (Java's encoding) if it is not valid UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), None, f"cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return parse_properties(text, str(path))


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    """Return the settings in a text; errors name it by `source`."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        try:
            name, value = _split(line)
        except ValueError as error:
            raise ConfigError(f"{source}, line {number}", None, str(error)) from None
        properties[name] = value
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """Return a text that `parse_properties` parses to these settings, one on each line."""
    return "".join(f"{_escape(name, _BLANKS + '=:#!')}={_escape(value, '')}\n" for name, value in properties.items())


def _escape(text: str, special: str) -> str:
    """Escape characters that would end a name or a line, and leading white space of a value."""
    written = {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
    written |= {character: f"\\{character}" for character in f"\\{special}" if character not in written}
    escaped = "".join(written.get(character, character) for character in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return lines joined with their continuations, each with its line number, without comments and blank lines."""
    lines: list[tuple[int, str]] = []
    pending: str | None = None
    start = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            start, pending = number, ""
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append((start, pending + line))
        pending = None
    if pending:
        lines.append((start, pending))
    return lines


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    name, rest = line[:end], line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(name), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                    raise ValueError(f"\\u{digits} is not a valid escape: four hexadecimal digits must follow \\u")
                parts.append(chr(int(digits, 16)))
                position += 4
                continue
            character = _ESCAPES.get(character, character)
        parts.append(character)
    return with_pairs_joined("".join(parts))

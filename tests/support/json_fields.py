"""The fields of `--json` as docs/cli.md lists them, and those that a command has printed.

A field is written as a path: `partitions[].leader` is the leader of every element of `partitions`; `configs.*` is any
key of `configs`, such as the name of a setting; `value…` is any JSON. `[]` is an element of the document itself.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from support.broker import ROOT

_ROW = re.compile(r"^\| `([a-z -]+)` \| (.*) \|$", flags=re.MULTILINE)


@functools.cache
def documented_fields() -> dict[str, tuple[str, ...]]:
    """The paths of each command, such as "topics list"."""
    section = (ROOT / "docs" / "cli.md").read_text().partition("\n## JSON\n")[2].partition("\n## ")[0]
    return {command: tuple(re.findall(r"`([^`]+)`", fields)) for command, fields in _ROW.findall(section)}


def command_of(words: Sequence[object]) -> str | None:
    """The command of a command line by its full name; None if it is not documented."""
    known = documented_fields()
    names = [_full_name(str(word)) for word in words if not str(word).startswith("-")]
    for first, second in zip(names, [*names[1:], ""], strict=True):
        for command in (f"{first} {second}", first):
            if command in known:
                return command
    return None


def _full_name(typed: str) -> str:
    commands = {word for command in documented_fields() for word in command.split()}
    return next((name for name in ({"ls": "list"}.get(typed, typed), f"{typed}s") if name in commands), typed)


def printed_fields(output: str) -> set[str]:
    """The paths in the output of a command: one document, or one on each line."""
    try:
        documents = [json.loads(output)]
    except ValueError:
        documents = [json.loads(line) for line in output.splitlines()]
    return {path for document in documents for path in _paths_of_document(document)}


def _paths_of_document(document: Any) -> Iterator[str]:
    for one in document if isinstance(document, list) else [document]:
        yield from _paths(one, "" if isinstance(one, dict) else "[]")


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, content in value.items():
            yield from _paths(content, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for content in value:
            yield from _paths(content, f"{path}[]")
    else:
        yield path


def undocumented(command: str, paths: set[str]) -> list[str]:
    """The paths that docs/cli.md does not list for a command. The empty list or object, and null, are any field."""
    fields = documented_fields()[command]
    return sorted(path for path in paths if not any(_covers(field, path) for field in fields))


def not_printed(command: str, paths: set[str]) -> list[str]:
    """The documented fields of a command that are not in the paths."""
    return [field for field in documented_fields()[command] if not any(_pattern(field).fullmatch(p) for p in paths)]


def _covers(field: str, path: str) -> bool:
    is_above = field.startswith((f"{path}.", f"{path}["))  # an empty container, or null in its place
    return is_above or _pattern(field).fullmatch(path) is not None


@functools.cache
def _pattern(field: str) -> re.Pattern[str]:
    return re.compile(re.escape(field).replace(r"\*", ".+").replace("…", ".*"))

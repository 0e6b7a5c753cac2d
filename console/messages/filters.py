"""Filters of records: text in key, value or headers, a condition on a path in JSON, a regular expression (RE2).

Text is compared without case, in what the decoder shows. RE2 needs time in proportion to the text, whatever the
expression is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from console.decoding.expressions import ExpressionError, NoRe2Error, searcher
from console.decoding.record_decoder import RecordDecoder
from console.messages.stored_record import StoredRecord
from console.rest.errors import RestError
from console.rest.operation import Parameter

FILTERS: Final = tuple(Parameter(name) for name in ("key", "value", "header", "path", "regex"))
"""`header`: TEXT or NAME=TEXT. `path`: such as `$.user.id == 5` or `items[0].name ~ "x"`; `$.user`: it exists."""
_MAX_TEXT: Final = 1000
_CONDITION: Final = re.compile(r"\s*(?P<path>.+?)\s*(?:(?P<operator>==|!=|>=|<=|>|<|~)\s*(?P<wanted>.+?)\s*)?")
_STEP: Final = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(\d{1,9})\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_MISSING: Final = object()

Matches = Callable[["Shown"], bool]


class Shown(NamedTuple):
    """What a filter looks at: texts as they are shown."""

    key: str
    value: str
    headers: tuple[tuple[str, str], ...]


class RecordFilter:
    """All conditions of a request; a record must fulfil each. Without conditions every record does."""

    def __init__(self, conditions: list[Matches], decoder: RecordDecoder) -> None:
        self._conditions = conditions
        self._decoder = decoder

    @classmethod
    def of(cls, query: Mapping[str, str], decoder: RecordDecoder) -> RecordFilter:
        """Return the filter of a request. Raises RestError."""
        for name, text in query.items():
            if len(text) > _MAX_TEXT and name in {one.name for one in FILTERS}:
                raise RestError(400, f"{name} has more than {_MAX_TEXT} characters")
        makers: dict[str, Callable[[str], Matches]] = {
            "key": _in_key,
            "value": _in_value,
            "header": _in_headers,
            "path": _at_path,
            "regex": _expression,
        }
        return cls([make(query[name]) for name, make in makers.items() if name in query], decoder)

    async def prepare(self, records: Iterable[StoredRecord]) -> None:
        """Load what is needed to decode records; before `matches`."""
        await self._decoder.prepare((one.key, one.value) for one in records)

    @property
    def is_empty(self) -> bool:
        """Whether there are no conditions."""
        return not self._conditions

    def matches(self, record: StoredRecord) -> bool:
        """Return whether a record fulfils all conditions."""
        if not self._conditions:
            return True
        key = self._decoder.key(record.key)
        value = self._decoder.value(record.key, record.value)
        headers = tuple((name, (data or b"").decode(errors="replace")) for name, data in record.headers)
        shown = Shown("" if key is None else key.text, "" if value is None else value.text, headers)
        return all(condition(shown) for condition in self._conditions)


def _in_key(text: str) -> Matches:
    wanted = text.casefold()
    return lambda shown: wanted in shown.key.casefold()


def _in_value(text: str) -> Matches:
    wanted = text.casefold()
    return lambda shown: wanted in shown.value.casefold()


def _in_headers(text: str) -> Matches:
    name, equals, part = text.partition("=")
    wanted = part.casefold()
    if equals:
        return lambda shown: any(one == name and wanted in value.casefold() for one, value in shown.headers)
    anything = text.casefold()
    return lambda shown: any(anything in f"{one}\n{value}".casefold() for one, value in shown.headers)


def _expression(text: str) -> Matches:
    """Return whether key or value have a match. Raises RestError."""
    try:
        has_match = searcher(text)
    except NoRe2Error as error:
        raise RestError(501, str(error)) from None
    except ExpressionError as error:
        raise RestError(400, f"regex: {error}") from None
    return lambda shown: has_match(shown.value) or has_match(shown.key)


def _at_path(text: str) -> Matches:
    """Return whether the value is JSON that has a path, and there a value. Raises RestError."""
    found = _CONDITION.fullmatch(text)
    steps = None if found is None else _steps(found["path"])
    if found is None or steps is None:
        raise RestError(400, f'path: {text[:80]!r} is not a path such as $.user.id or items[0].name == "x"')
    is_true = _comparison(found["operator"], found["wanted"])

    def matches(shown: Shown) -> bool:
        try:
            value: Any = json.loads(shown.value)
        except (ValueError, RecursionError):
            return False
        for step in steps:
            value = _below(value, step)
            if value is _MISSING:
                return False
        return is_true(value)

    return matches


def _steps(path: str) -> list[str | int] | None:
    """Return the names and indexes of a path; None if it is not one."""
    position = 1 if path.startswith("$") else 0
    steps: list[str | int] = []
    while position < len(path):
        found = _STEP.match(path, position)
        if found is None:
            return None
        name, index, quoted = found.groups()
        steps.append(name if name is not None else int(index) if index is not None else json.loads(quoted))
        position = found.end()
    return steps


def _below(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and step < len(value) else _MISSING
    return value.get(step, _MISSING) if isinstance(value, dict) else _MISSING


def _comparison(operator: str | None, wanted_text: str | None) -> Callable[[Any], bool]:
    if operator is None or wanted_text is None:
        return lambda _: True
    try:
        wanted: Any = json.loads(wanted_text)
    except (ValueError, RecursionError):
        wanted = wanted_text
    match operator:
        case "==":
            return lambda value: _is_same(value, wanted)
        case "!=":
            return lambda value: not _is_same(value, wanted)
        case "~":
            part = str(wanted).casefold()
            return lambda value: part in (value if isinstance(value, str) else json.dumps(value)).casefold()
    return lambda value: _is_ordered(operator, value, wanted)


def _is_same(value: Any, wanted: Any) -> bool:
    """Return whether two values of JSON are equal: 1 is not true, as it is in Python."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _is_ordered(operator: str, value: Any, wanted: Any) -> bool:
    kinds: tuple[type, ...] = (str,) if isinstance(wanted, str) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not isinstance(wanted, kinds):
        return False
    left: Any = value
    match operator:
        case ">":
            return bool(left > wanted)
        case "<":
            return bool(left < wanted)
        case ">=":
            return bool(left >= wanted)
    return bool(left <= wanted)

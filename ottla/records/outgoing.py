"""From a line of input to a record for `ottla produce`: plain lines, and JSON as `ottla consume --json` prints it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from client.schemas.json_text import dump, load
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.options import parse_time
from ottla.records.json_content import from_json
from protocol.record import Header

Encode = Callable[[bytes], bytes]
"""From JSON text to the bytes of a record, by a schema. Raises CommandError; its message follows "line N "."""

_FIELDS = ("topic", "key", "value", "headers", "partition", "timestamp")
# Printed by `consume --json`: about the record that was read, not about the one to write.
_IGNORED = ("offset", "timestamp_type", "key_schema_id", "value_schema_id")
_TEXTS = ("key_text", "value_text")
_NO_TIMESTAMP = -1


class LineError(CommandError):
    """A line is not a record. The message is a predicate: it follows "line N "."""


class OutgoingRecord(NamedTuple):
    """A record to send. `partition` and `timestamp_ms` are None where the producer chooses."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    partition: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class RecordDefaults:
    """What the options give: for plain lines every record has it, for JSON the records without this field.

    `key` gets the number of the line, from 1. `topic` is None if every line names its topic; else no line's topic
    counts. `encode_key` and `encode_value` are None without a schema.
    """

    topic: str | None
    key: Callable[[int], bytes | None]
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    encode_key: Encode | None = None
    encode_value: Encode | None = None


class PlainLines:
    """Makes a record of each line: the value, or key and value with `separator` between them.

    A key or value that is equal to `null_marker` is null.
    """

    def __init__(self, defaults: RecordDefaults, *, separator: bytes | None, null_marker: bytes | None) -> None:
        if defaults.topic is None:
            raise CommandError("the topic is missing: only lines of JSON (--json) can name it")
        self._topic = defaults.topic
        self._defaults = defaults
        self._separator = separator
        self._null_marker = null_marker

    def __call__(self, line: bytes, number: int) -> OutgoingRecord:
        """Return the record of a line. Raises LineError."""
        defaults = self._defaults
        value: bytes | None = line
        if self._separator is None:
            key = defaults.key(number)
        else:
            key, separator, value = line.partition(self._separator)
            if not separator:
                raise LineError(f"has no key separator {repr(self._separator).removeprefix('b')}")
        if self._null_marker is not None:
            key = None if key == self._null_marker else key
            value = None if value == self._null_marker else value
        if defaults.encode_key is not None and key is not None:
            key = defaults.encode_key(key)
        if defaults.encode_value is not None and value is not None:
            value = defaults.encode_value(value)
        return OutgoingRecord(self._topic, key, value, defaults.headers, defaults.partition, defaults.timestamp_ms)


class JsonLines:
    """Makes a record of each JSON object; lines without characters are skipped."""

    def __init__(self, defaults: RecordDefaults) -> None:
        self._defaults = defaults

    def __call__(self, line: bytes, number: int) -> OutgoingRecord | None:
        """Return the record of a line, None for an empty one. Raises LineError."""
        if not line.strip():
            return None
        fields = _parse(line)
        defaults = self._defaults
        key, value = _content(fields, "key", defaults.encode_key), _content(fields, "value", defaults.encode_value)
        timestamp = fields.get("timestamp")
        return OutgoingRecord(
            defaults.topic if defaults.topic is not None else _topic(fields),
            key if "key" in fields else _encoded(defaults.key(number), defaults.encode_key),
            value,
            _headers(fields["headers"]) if "headers" in fields else defaults.headers,
            _partition(fields["partition"]) if "partition" in fields else defaults.partition,
            defaults.timestamp_ms if timestamp in (None, _NO_TIMESTAMP) else _timestamp(timestamp),
        )


def _parse(line: bytes) -> dict[str, Any]:
    try:
        fields = load(line)
    except json.JSONDecodeError as error:
        raise LineError(f"is not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise LineError(f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise LineError('is not a JSON object such as {"key": "k", "value": "v"}')
    for name in fields:
        if name not in _FIELDS and name not in _IGNORED and name not in _TEXTS:
            near = suggest(name, list(_FIELDS)) or f"; the fields are {', '.join(_FIELDS)}"
            raise LineError(f"has the unknown field {name!r}{near}")
    return fields


def _content(fields: Mapping[str, Any], name: str, encode: Encode | None) -> bytes | None:
    """Return a key or value: its exact text if the line has it, else the bytes for its JSON."""
    value = fields.get(name)
    text = fields.get(f"{name}_text")
    try:
        if text is None:
            if encode is None:
                return from_json(value)
            return None if value is None else encode(dump(value).encode())
        if not isinstance(text, str) or dump(load(text)) != dump(value):
            raise LineError(f"has a {name}_text that is not the text of its {name}: remove {name}_text")
        return _encoded(text.encode(), encode)
    except ValueError as error:
        raise LineError(f"has a wrong {name}: {error}") from None


def _encoded(content: bytes | None, encode: Encode | None) -> bytes | None:
    return content if content is None or encode is None else encode(content)


def _topic(fields: Mapping[str, Any]) -> str:
    topic = fields.get("topic")
    if not isinstance(topic, str) or not topic:
        raise LineError("names no topic, and the command has no TOPIC")
    return topic


def _headers(value: Any) -> list[Header]:
    """Return the headers of [[name, value], ...] or {name: value}."""
    pairs = list(value.items()) if isinstance(value, dict) else value
    if pairs is None:
        return []
    if not isinstance(pairs, list) or not all(_is_header(pair) for pair in pairs):
        raise LineError("has wrong headers: they must be [[name, value], ...] or {name: value}")
    try:
        return [(name, from_json(content)) for name, content in pairs]
    except ValueError as error:
        raise LineError(f"has a wrong header: {error}") from None


def _is_header(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)


def _partition(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise LineError(f"has a wrong partition: {dump(value)} is not a number from 0")


def _timestamp(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        try:
            return parse_time(value, "timestamp")
        except CommandError as error:
            raise LineError(f"has a wrong {error}") from None
    raise LineError(f"has a wrong timestamp: {dump(value)} is neither milliseconds nor an ISO time")

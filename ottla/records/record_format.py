r"""How `ottla consume` prints a record: a format string like kcat's and rpk's, or a line of JSON.

Fields: %t topic, %p partition, %o offset, %T timestamp in ms, %k key, %K length of the key (-1 for null), %v or %s
value, %S length of the value, %h headers as name=value,name=value, %% a percent sign. Escapes: \t \n \r \0 \\ \xNN.
The bytes of keys and values are printed unchanged.

A field may be followed by a modifier in braces:

- %k and %v: {hex}, {base64}, {json} (as in the lines of --json; a null is null).
- %T: {iso}, the time in UTC.
- %h: {json}, or a format that is printed for each header, with %k for its name and %v for its value: %h{%k: %v{hex}\n}.

A literal brace after a field is \x7b.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from client.consumer.fetched import ConsumerRecord
from client.schemas.json_text import dump
from ottla.command_line.failure import CommandError
from ottla.command_line.options import unescape
from ottla.records.json_content import JsonText, as_json, json_bytes

DEFAULT_FORMAT = r"%s\n"
FORMAT_HELP = (
    r"%t topic %p partition %o offset %T time %k key %v (or %s) value %K %S their lengths %h headers, \n \t \xNN."
    " After %k and %v: {hex}, {base64} or {json}; after %T: {iso}; after %h: {json} or a format for each header."
)

Part = Callable[[Any], bytes]
Content = Callable[[Any], bytes | None]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_writer(text: str, null_marker: bytes) -> Callable[[ConsumerRecord], bytes]:
    """Return a function that formats a record as bytes. `null_marker` is printed for a null key or value.

    Raises CommandError for a field, modifier or escape that does not exist.
    """
    fields = _record_fields(null_marker)
    parts = list(_compile(text, fields, text))
    if text == DEFAULT_FORMAT:  # the fastest
        return lambda record: (null_marker if record.value is None else record.value) + b"\n"
    return lambda record: b"".join([part(record) for part in parts])


class _Field(NamedTuple):
    """How to print a field: without a modifier, and with each of its modifiers."""

    plain: Part
    modified: Mapping[str, Part] = {}
    # Compiles a format for the parts of the field.
    inner: Callable[[str, str], Part] | None = None


def _record_fields(null_marker: bytes) -> dict[str, _Field]:
    key = _content_field(lambda record: record.key, null_marker)
    value = _content_field(lambda record: record.value, null_marker)
    return {
        "t": _Field(lambda record: record.topic.encode()),
        "p": _Field(lambda record: b"%d" % record.partition),
        "o": _Field(lambda record: b"%d" % record.offset),
        "T": _Field(
            lambda record: b"%d" % record.timestamp, {"iso": lambda record: iso_time(record.timestamp).encode()}
        ),
        "k": key,
        "K": _Field(lambda record: b"%d" % (-1 if record.key is None else len(record.key))),
        "v": value,
        "s": value,
        "S": _Field(lambda record: b"%d" % (-1 if record.value is None else len(record.value))),
        "h": _Field(
            lambda record: b",".join(
                name.encode() + b"=" + (null_marker if content is None else content) for name, content in record.headers
            ),
            {"json": lambda record: dump(_json_headers(record)).encode()},
            lambda text, whole: _for_each_header(text, whole, null_marker),
        ),
    }


def _content_field(content: Content, null_marker: bytes) -> _Field:
    """Return the field of a key, a value or a header's value."""

    def through(convert: Callable[[bytes], bytes]) -> Part:
        return lambda record: null_marker if (found := content(record)) is None else convert(found)

    return _Field(
        through(bytes),
        {
            "hex": through(lambda found: found.hex().encode()),
            "base64": through(base64.b64encode),
            "json": lambda record: _json_of(content(record)),
        },
    )


def _json_of(content: bytes | None) -> bytes:
    if isinstance(content, JsonText):
        return content
    value, text = as_json(content)
    return dump(value).encode() if text is None else text.encode()


def _for_each_header(text: str, whole: str, null_marker: bytes) -> Part:
    """Compile the format of a header."""
    fields = {
        "k": _Field(lambda header: header[0].encode()),
        "v": _content_field(lambda header: header[1], null_marker),
    }
    parts = list(_compile(text, fields, whole))
    return lambda record: b"".join([part(header) for header in record.headers for part in parts])


def _compile(text: str, fields: Mapping[str, _Field], whole: str) -> Iterator[Part]:
    """Yield the functions that print the parts of a format. `whole` is the format for messages."""
    position = 0
    while position < len(text):
        percent = text.find("%", position)
        if percent != position:
            end = len(text) if percent < 0 else percent
            yield _constant(unescape(text[position:end], "--format"))
            position = end
            continue
        letter = text[position + 1 : position + 2]
        position += 2
        if letter == "%":
            yield _constant(b"%")
            continue
        if letter not in fields:
            raise CommandError(f"--format {whole!r}: %{letter} must be one of %{' %'.join(fields)} %%")
        modifier = _braces(text, position, whole)
        if modifier is not None:
            position += len(modifier) + 2
        yield _part(letter, fields[letter], modifier, whole)


def _braces(text: str, position: int, whole: str) -> str | None:
    """Return what is in the braces that open at `position`; None if none do. Inner braces belong to it."""
    if text[position : position + 1] != "{":
        return None
    depth = 0
    for end in range(position, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[position + 1 : end]
    raise CommandError(
        f"--format {whole!r}: a brace after a field opens a modifier, and is not closed (\\x7b is a brace)"
    )


def _part(letter: str, field: _Field, modifier: str | None, whole: str) -> Part:
    if modifier is None:
        return field.plain
    if modifier in field.modified:
        return field.modified[modifier]
    if field.inner is not None and "%" in modifier:
        return field.inner(modifier, whole)
    if not field.modified:
        raise CommandError(f"--format {whole!r}: %{letter} has no modifiers (\\x7b is a brace)")
    choices = [f"{{{name}}}" for name in field.modified] + ["{a format with %k and %v}"] * (field.inner is not None)
    raise CommandError(
        f"--format {whole!r}: the modifier of %{letter} must be {' or '.join(choices)}, not {{{modifier}}}"
    )


def _constant(value: bytes) -> Part:
    return lambda _: value


def iso_time(timestamp_ms: int) -> str:
    """Return a time in UTC with milliseconds; "-" for none, and the milliseconds for a year that ISO does not have."""
    if timestamp_ms == -1:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_writer(record: ConsumerRecord) -> bytes:
    """Format a record as a line of JSON (see `ottla.records.json_content`)."""
    key, key_text = as_json(record.key)
    value, value_text = as_json(record.value)
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "LogAppendTime" if record.timestamp_type else "CreateTime",
        "headers": _json_headers(record),
        "key": key,
        "value": value,
    }
    if key_text is not None:
        fields["key_text"] = key_text
    if value_text is not None:
        fields["value_text"] = value_text
    for name, content in (("key_schema_id", record.key), ("value_schema_id", record.value)):
        if isinstance(content, JsonText) and content.schema_id is not None:
            fields[name] = content.schema_id
    return dump(fields).encode() + b"\n"


def _json_headers(record: ConsumerRecord) -> list[list[Any]]:
    return [[name, json_bytes(content)] for name, content in record.headers]

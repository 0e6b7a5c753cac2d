r"""How `ottla consume` prints a record: a format string like kcat's, or a line of JSON.

Fields: %t topic, %p partition, %o offset, %T timestamp in ms, %k key, %K length of the key (-1 for null),
%s value, %S length of the value, %h headers as name=value,name=value, %% a percent sign. Escapes: \t \n \r
\0 \\ \xNN. The bytes of keys and values are printed unchanged.
"""

import base64
import json
import re
from collections.abc import Callable
from typing import Any

from client.consumer.fetched import ConsumerRecord
from ottla.command_line.failure import CommandError
from ottla.command_line.options import unescape

DEFAULT_FORMAT = r"%s\n"
FORMAT_HELP = r"%t topic %p partition %o offset %T time %k key %s value %K %S their lengths %h headers, \n \t \xNN."


def format_writer(text: str, null_marker: bytes) -> Callable[[ConsumerRecord], bytes]:
    """Return a function that formats a record as bytes. `null_marker` is printed for a null key or value.

    Raises CommandError for a field or escape that does not exist.
    """
    fields: dict[str, Callable[[ConsumerRecord], bytes]] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
        "k": lambda record: null_marker if record.key is None else record.key,
        "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
        "s": lambda record: null_marker if record.value is None else record.value,
        "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
        "h": lambda record: b",".join(
            name.encode() + b"=" + (null_marker if value is None else value) for name, value in record.headers
        ),
    }
    parts: list[Callable[[ConsumerRecord], bytes]] = []
    for literal, field in re.findall(r"([^%]+)|%(.?)", text, flags=re.DOTALL):
        if literal or field == "%":
            parts.append(_constant(unescape(literal, "--format") if literal else b"%"))
        elif field in fields:
            parts.append(fields[field])
        else:
            raise CommandError(f"--format {text!r}: %{field} must be one of %{' %'.join(fields)} %%")
    if len(parts) == 2 and parts[0] is fields["s"]:  # the default, and the fastest
        tail = parts[1](ConsumerRecord("", 0, 0, 0, 0, None, None, ()))
        return lambda record: (null_marker if record.value is None else record.value) + tail
    return lambda record: b"".join([part(record) for part in parts])


def _constant(value: bytes) -> Callable[[ConsumerRecord], bytes]:
    return lambda _: value


def json_writer(record: ConsumerRecord) -> bytes:
    """Format a record as a line of JSON; bytes that are not UTF-8 become {"base64": "..."}."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "LogAppendTime" if record.timestamp_type else "CreateTime",
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def json_bytes(value: bytes | None) -> Any:
    """Convert bytes for JSON: to text if they are UTF-8, else to {"base64": "..."}; None stays None."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}

"""The log of a broker process on standard error: one line for each event, as text or as JSON.

A text line is `2026-11-23 08:00:00,123 INFO broker.broker: message`, in local time; the lines of a traceback follow it.
Messages contain names that clients choose, for example those of groups: line breaks and other control characters in a
message are escaped, so that no client can write a line of its own.
A JSON line is an object with the fields `timestamp` (UTC, ISO 8601, milliseconds), `level`, `logger` and `message`,
and, if the event has them, `exception` and `stack` (text with line breaks). These names do not change. `level` is one
of Python's names: CRITICAL, ERROR, WARNING, INFO, DEBUG, and TRACE.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from broker.log_levels import level_number

JSON = "json"
TEXT = "text"
_TEXT_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_log(log_format: str, level: str) -> None:
    """Write the log of this process to standard error. Do nothing if the root logger has a handler already.

    log_format: TEXT or JSON. level: a name of Kafka's levels, in any case.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == JSON else TextLines())
    logging.basicConfig(level=level_number(level), handlers=[handler])
    if log_format == JSON:
        logging.captureWarnings(True)


class TextLines(logging.Formatter):
    """Formats an event as one line of text, and the lines of its traceback."""

    def __init__(self) -> None:
        super().__init__(_TEXT_LINE)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line without its traceback."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


class JsonLines(logging.Formatter):
    """Formats an event as one JSON object. ASCII only, so that the encoding of the terminal does not matter."""

    def format(self, record: logging.LogRecord) -> str:
        """See the class."""
        fields = {
            "timestamp": _utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields)


def json_line(name: str, message: str, fields: Mapping[str, object], now_s: float) -> str:
    """Return a JSON line of level INFO with further fields; now_s is in seconds since 1970."""
    head = {"timestamp": _utc(now_s), "level": "INFO", "logger": name, "message": message}
    return json.dumps(head | dict(fields))


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

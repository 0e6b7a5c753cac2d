"""The log of a broker process on standard error: one line for each event, as text or as JSON.

A text line is `2026-11-23 08:00:00,123 INFO broker.broker: message`, in local time; the lines of a traceback follow it.
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
    handler.setFormatter(JsonLines() if log_format == JSON else logging.Formatter(_TEXT_LINE))
    logging.basicConfig(level=level_number(level), handlers=[handler])
    if log_format == JSON:
        logging.captureWarnings(True)


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

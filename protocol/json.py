"""Messages in the JSON format of Kafka's converters, for tests, dumps and debugging.

Names are in camel case; bytes and records are base64, UUIDs are 22 characters of base64url, numbers are plain. Only the
fields of the given version are included, tagged fields only if they differ from their default. Unknown tagged fields
are dropped.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, TypeVar

from protocol.buffer import LazyRecords
from protocol.fields import Field
from protocol.message import Message
from protocol.source import default_of, struct_of
from protocol.uuid import uuid_from_string, uuid_to_string

M = TypeVar("M", bound=Message)


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Return a value for `json.dumps`; raises UnsupportedVersionError if the message does not have the version."""
    message.check_version(version)
    return _struct_to_json(message, version)


def from_json(cls: type[M], json: dict[str, Any], version: int) -> M:
    """Return the message; missing fields get their default. Raises ValueError for unknown names."""
    cls.check_version(version)
    return _struct_from_json(cls, json, version)


def _struct_to_json(message: Message, version: int) -> dict[str, Any]:
    json: dict[str, Any] = {}
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.present(version) and not (field.tag is not None and value == default_of(field)):
            json[field.json_name] = _to_json(field.kind, field, value, version)
    return json


def _to_json(kind: str, field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if kind == "array":
        element = field.element if isinstance(field.element, str) else "struct"
        return [_to_json(element, field, item, version) for item in value]
    if kind == "struct":
        return _struct_to_json(value, version)
    if kind == "uuid":
        return uuid_to_string(value)
    if kind in ("byte_string", "record_set"):
        return b64encode(value.to_bytes() if isinstance(value, LazyRecords) else value).decode()
    return value


def _struct_from_json(cls: type[M], json: dict[str, Any], version: int) -> M:
    values = {}
    rest = dict(json)
    for field in cls.FIELDS:
        if field.present(version) and field.json_name in rest:
            values[field.name] = _from_json(field.kind, field, rest.pop(field.json_name), version)
    if rest:
        raise ValueError(f"{cls.NAME} version {version} has no field {', '.join(sorted(rest))}")
    return cls(**values)


def _from_json(kind: str, field: Field, json: Any, version: int) -> Any:
    if json is None:
        return None
    if kind == "array":
        element = field.element if isinstance(field.element, str) else "struct"
        return [_from_json(element, field, item, version) for item in json]
    if kind == "struct":
        return _struct_from_json(struct_of(field), json, version)
    if kind == "uuid":
        return uuid_from_string(json)
    if kind in ("byte_string", "record_set"):
        return b64decode(json, validate=True)
    return float(json) if kind == "float64" else json

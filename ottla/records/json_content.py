"""Keys, values and headers in JSON, such that the bytes can be restored.

| bytes | in JSON |
|---|---|
| null | `null` |
| text that is a JSON object or array | that object or array (keys and values, not headers) |
| other text | a string |
| not UTF-8 | `{"base64": "..."}` |

An object or array is written back without spaces. If the text of the record is different (spaces, escapes, a key twice,
a number with more digits), it is also given as text, in the field `value_text` or `key_text`.
"""

import base64
from typing import Any

from client.schemas.json_text import dump, load


class JsonText(bytes):
    """The JSON text of a key or value that was decoded by its schema.

    `schema_id` is the id of the schema in a schema registry; None if the schema is a file.
    """

    schema_id: int | None = None


def as_json(content: bytes | None) -> tuple[Any, str | None]:
    """Return a key or value for JSON, and its text if the first does not determine it (see the table above)."""
    if isinstance(content, JsonText):
        return load(content), None
    if content is None or content[:1] not in (b"{", b"["):
        return json_bytes(content), None
    try:
        text = content.decode()
        value = load(text)
        same = dump(value)
        same.encode()  # a text may name half a character: "\ud800"
    except ValueError:
        return json_bytes(content), None
    if is_base64(value):  # would be taken for bytes
        return text, None
    return value, None if same == text else text


def json_bytes(content: bytes | None) -> Any:
    """Convert bytes for JSON: to text if they are UTF-8, else to {"base64": "..."}; None stays None."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def is_base64(value: Any) -> bool:
    """Whether a JSON value stands for bytes: {"base64": ...}."""
    return isinstance(value, dict) and value.keys() == {"base64"}


def from_json(value: Any) -> bytes | None:
    """Return the bytes that a JSON value stands for. Raises ValueError if there are none."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if is_base64(value):
        if not isinstance(value["base64"], str):
            raise ValueError('"base64" must be a string')
        return base64.b64decode(value["base64"], validate=True)
    return dump(value).encode()

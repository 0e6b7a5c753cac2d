"""The decoders of keys and values: by name, or chosen by what the bytes look like.

| name | shows |
|---|---|
| text | UTF-8; other bytes as � |
| json | JSON |
| hex | hexadecimal digits |
| base64 | base64 |
| messagepack, cbor | JSON of what the value contains |
| int32, int64 | a signed number, the highest byte first |
| uuid | 16 bytes, or text of 36 characters, as a UUID |
| internal | records of `__consumer_offsets` and `__transaction_state` |

`auto` never fails: what is nothing else is text or hex. `registry`, which needs a schema registry, is in
`registry_decoder`.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from console.decoding import cbor, message_pack
from console.decoding.errors import DecodingError
from console.decoding.limits import MAX_BYTES

AUTO: Final = "auto"
INTERNAL: Final = "internal"
_MAX_DIGITS: Final = 4000


class Decoded(NamedTuple):
    """What is shown of a key or value. `is_json`: the text is JSON."""

    decoder: str
    text: str
    is_json: bool = False
    error: str | None = None
    schema_id: int | None = None
    schema_type: str | None = None


def decode(name: str, data: bytes) -> Decoded:
    """Decode with one decoder; "auto" chooses it. Data without its format is shown as text or hex, with the error."""
    if len(data) > MAX_BYTES:
        shown = _plain(data[:MAX_BYTES])
        return shown if name in (AUTO, "text", "hex") else shown._replace(error=f"has more than {MAX_BYTES} bytes")
    if name == AUTO:
        return _auto(data)
    if name == INTERNAL:
        return _plain(data)._replace(error="is not in an internal topic of Kafka")
    try:
        return _DECODERS[name](data)
    except DecodingError as error:
        return _plain(data)._replace(error=str(error))


def as_json(name: str, value: Any, schema_id: int | None = None) -> Decoded:
    """Return a value as JSON text. Raises DecodingError."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise DecodingError(f"cannot be shown as JSON: {error}") from None
    return Decoded(name, text, is_json=True, schema_id=schema_id)


def _auto(data: bytes) -> Decoded:
    for is_likely, decoder in _GUESSES:
        if is_likely(data):
            try:
                return decoder(data)
            except DecodingError:
                continue
    return _plain(data)


def _plain(data: bytes) -> Decoded:
    """Return text, or hex if it is not printable."""
    return _text(data) if is_text(data) else _hex(data)


def is_text(data: bytes) -> bool:
    """Return whether data is UTF-8 without control characters. It may end inside a character: it may be cut."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3 or error.reason != "unexpected end of data":
            return False
        text = data[: error.start].decode()
    return not any((one < " " and one not in "\t\n\r") or one == "\x7f" for one in text)


def _text(data: bytes) -> Decoded:
    return Decoded("text", data.decode(errors="replace"))


def _hex(data: bytes) -> Decoded:
    return Decoded("hex", data.hex(" "))


def _base64(data: bytes) -> Decoded:
    return Decoded("base64", base64.b64encode(data).decode())


def _json(data: bytes) -> Decoded:
    try:
        text = data.decode()
        json.loads(text, parse_constant=_refuse, parse_int=_refuse_long, parse_float=_unchanged)
    except (ValueError, RecursionError) as error:
        raise DecodingError(f"is not JSON: {error or 'too many levels'}") from None
    return Decoded("json", text, is_json=True)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _refuse_long(digits: str) -> str:
    """Numbers are not needed; converting one of many digits would take long."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return digits


def _unchanged(digits: str) -> str:
    return digits


def _message_pack(data: bytes) -> Decoded:
    return as_json("messagepack", message_pack.decode(data))


def _cbor(data: bytes) -> Decoded:
    return as_json("cbor", cbor.decode(data))


def _number(size: int) -> Callable[[bytes], Decoded]:
    name = f"int{size * 8}"

    def decoder(data: bytes) -> Decoded:
        if len(data) != size:
            raise DecodingError(f"has {len(data)} bytes; {name} has {size}")
        return Decoded(name, str(int.from_bytes(data, "big", signed=True)))

    return decoder


def _uuid(data: bytes) -> Decoded:
    try:
        found = uuid.UUID(bytes=data) if len(data) == 16 else uuid.UUID(data.decode())
    except ValueError:
        raise DecodingError("is neither 16 bytes nor the text of a UUID") from None
    return Decoded("uuid", str(found))


_DECODERS: Final[dict[str, Callable[[bytes], Decoded]]] = {
    "text": _text,
    "json": _json,
    "hex": _hex,
    "base64": _base64,
    "messagepack": _message_pack,
    "cbor": _cbor,
    "int32": _number(4),
    "int64": _number(8),
    "uuid": _uuid,
}
NAMES: Final = (AUTO, *_DECODERS, INTERNAL)
"""The names of all decoders here."""


def _is_json(data: bytes) -> bool:
    return data[:1] in (b"{", b"[")


def _is_message_pack(data: bytes) -> bool:
    """A map or an array, of more than one byte."""
    return len(data) > 1 and (0x80 <= data[0] <= 0x9F or 0xDC <= data[0] <= 0xDF) and not is_text(data)


def _is_cbor(data: bytes) -> bool:
    """A map or an array of more than one byte, or the tag that says that it is CBOR."""
    is_marked = data.startswith(b"\xd9\xd9\xf7")
    return is_marked or (len(data) > 1 and (0x80 <= data[0] <= 0xBB or data[0] in (0x9F, 0xBF)) and not is_text(data))


def _is_int(size: int) -> Callable[[bytes], bool]:
    return lambda data: len(data) == size and not is_text(data)


def _is_uuid(data: bytes) -> bool:
    """16 bytes with the version and the variant of RFC 9562."""
    return len(data) == 16 and 1 <= data[6] >> 4 <= 8 and data[8] >> 6 == 2 and not is_text(data)


_GUESSES: Final[tuple[tuple[Callable[[bytes], bool], Callable[[bytes], Decoded]], ...]] = (
    (_is_json, _json),
    (_is_uuid, _uuid),
    (_is_message_pack, _message_pack),
    (_is_cbor, _cbor),
    (_is_int(4), _number(4)),
    (_is_int(8), _number(8)),
)
